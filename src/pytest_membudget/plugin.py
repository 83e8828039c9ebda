"""pytest's entry point: registers options and the marker, and the gate if ``--membudget`` is given."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Generator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .errors import UsageMistake
from .names import ALL, BASE, CACHES, FIGURES, GATE, MARKED, MARKER, MEASURES, OFF, SELECTION, SKIP, WORKER

if TYPE_CHECKING:
    from .budgets.settings import Settings
    from .gate.hooks import Gate
    from .gate.selection import Selection

#: The values of ``--membudget-update``: without one, and with ``=raise``.
_UPDATE, _RAISE = "update", "raise"
_SCENARIOS = (".membudget.yaml", ".membudget.yml")
_SKIP_REASON = "has a GPU-memory budget; run pytest with --membudget to check it"


def _update(written: str) -> str:
    if written not in (_UPDATE, _RAISE):  # argparse passes the constant too
        raise argparse.ArgumentTypeError(
            f"{written!r}: write --membudget-update=raise, or a path before --membudget-update"
        )
    return written


_FLAG: Mapping[str, Any] = {"action": "store_true"}
_OPTIONS: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "--membudget": (
        {"action": "store_const", "const": MARKED},
        "estimate the GPU memory of the tests marked mem_budget, and fail those over their budgets",
    ),
    # a separate option: what follows --membudget behind a space is a path
    "--membudget=all": (
        {"action": "store_const", "const": ALL, "dest": "membudget"},
        "the same, and estimate the test functions without a mark too; those that take no GPU memory are "
        "skipped",
    ),
    "--membudget-gpu": (
        {"metavar": "NAME"},
        "the card for budgets that name none, e.g. H100-80GB, RTX-4090",
    ),
    "--membudget-measure": (
        {"choices": MEASURES},
        "measure on CUDA too: where it is (auto, the default), never (off), or fail without (require)",
    ),
    "--membudget-cache": (
        {"choices": CACHES},
        "use estimates of earlier sessions where nothing has changed (on, the default), make all anew "
        "and keep them (refresh), or neither (off)",
    ),
    "--membudget-strict": (
        _FLAG,
        "fail budgets that were not checked, or not all of them: skipped tests, memory that is not "
        "modelled and has no bound, sizes that rest on unknown data",
    ),
    "--membudget-update": (
        {"metavar": "raise", "nargs": "?", "const": _UPDATE, "type": _update},
        "write the figures of tests without gib to membudget.lock.yaml: new ones and lower ones; with "
        "--membudget-update=raise higher ones too. Tests that there are no longer leave the file",
    ),
    "--membudget-compare": (
        {"metavar": "BASE"},
        "compare with the merge base of a git reference, as origin/main, with a stored report.json, or "
        "with the same tests in another environment: python:PATH, its interpreter",
    ),
    "--membudget-report": (
        {"metavar": "DIR"},
        "write report.json to DIR",
    ),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options, all of the group ``membudget``; each defaults to None, so that settings apply."""
    group = parser.getgroup("membudget", "GPU memory budgets")
    for name, (attributes, text) in _OPTIONS.items():
        group.addoption(name, default=None, help=text, **attributes)


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None, None, None]:
    """Fail a session that a conftest ends with status 0 when it is imported."""
    try:
        yield
    except SystemExit as end:
        if end.code or not early_config.known_args_namespace.membudget:
            raise
        raise _usage_error("a conftest ended Python when it was imported: no budget was checked") from end


class _Exits:
    """Whether somebody has ended the session before the gate knew its tests."""

    were_early = has_collected = False

    def pytest_collection_finish(self) -> None:
        self.has_collected = True

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self) -> None:
        self.has_collected = True

    def pytest_keyboard_interrupt(self) -> None:
        self.were_early = not self.has_collected


@pytest.hookimpl(wrapper=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, int | None, int | None]:
    """Fail a session that ``pytest.exit`` ends with status 0 before its tests are collected."""
    exits = _Exits()
    config.pluginmanager.register(exits)
    status = yield
    if status != pytest.ExitCode.OK or not exits.were_early or not config.getoption("membudget"):
        return status
    sys.stderr.write("membudget: the session ended before its tests were collected: no budget was checked\n")
    return pytest.ExitCode.TESTS_FAILED


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker always; the gate with ``--membudget``, and without it the reason to skip."""
    marker = MARKER
    if config.getoption("markers"):
        from .budgets.budget import HELP  # its imports take 10 ms, and only `pytest --markers` shows it

        marker = HELP
    config.addinivalue_line("markers", marker)
    if config.pluginmanager.hasplugin(WORKER):
        _register_selection(config, _settings_of(config))
        return
    if not config.getoption("membudget"):
        if config.getoption("membudget_update"):
            raise _usage_error("--membudget-update needs --membudget")
        config.pluginmanager.register(_Skip(), SKIP)
        return
    _refuse_launcher()
    try:
        gate = _gate_of(config)
    except UsageMistake as error:
        raise _usage_error(str(error)) from error
    if config.pluginmanager.register(gate, GATE) is None:
        raise _usage_error("--membudget needs the plugin membudget-gate: leave -p no:membudget-gate out")


def _usage_error(text: str) -> pytest.UsageError:
    """``text`` in the width of the terminal, behind pytest's ``ERROR:``."""
    from .reporting.terminal.fitting import folded, terminal_width

    return pytest.UsageError("\n".join(folded([text], terminal_width() - len("ERROR: "))))


def _refuse_launcher() -> None:
    """Refuse a session that torchrun, or another launcher, has started as one of several ranks."""
    world_size = os.environ.get("WORLD_SIZE", "")
    if "RANK" in os.environ and world_size.isdecimal() and int(world_size) > 1:
        raise _usage_error(
            f"a launcher has started this session as one of {world_size} ranks (RANK and WORLD_SIZE say so): "
            "run pytest --membudget itself without the launcher; tests with gpus=N start their own ranks"
        )


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Files of scenarios and of scripts."""
    if not file_path.name.endswith(_SCENARIOS):
        return None
    from .scenarios.items import ScenarioFile

    collector: pytest.Collector = ScenarioFile.from_parent(parent, path=file_path)
    return collector


class _Skip:
    """Without ``--membudget`` a marked test is skipped, and says why."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            if item.get_closest_marker(MARKER) is not None:
                item.add_marker(pytest.mark.skip(reason=_SKIP_REASON))


def _gate_of(config: pytest.Config) -> Gate:
    start, root = Path(config.invocation_params.dir), config.rootpath
    _announce_custom_gpus(config, root / "pyproject.toml")
    settings = _settings_of(config)
    from .budgets.budget import parse_growth
    from .comparison.base.sources import source_of
    from .gate.estimators import choose_estimators
    from .gate.hooks import Gate
    from .gate.lock_file import Locking, Rules
    from .gate.selection import report_folder
    from .gate.xdist import is_worker, start_of
    from .reporting.files.json_file import torch_of

    started = start_of(config)
    folder = report_folder(config, started.dir) if settings.snapshots == ALL else None
    estimators = choose_estimators(config, settings, started, folder)
    config.add_cleanup(estimators.close)
    source = source_of(config.getoption("membudget_compare"), start, root)
    selection = _register_selection(config, settings)
    # the base of a comparison is a checkout that nothing is written to
    mode = None if config.pluginmanager.hasplugin(BASE) else config.getoption("membudget_update")
    rules = Rules(parse_growth(settings.tolerance), torch_of(os.environ) or "", mode)
    gate = Gate(config, settings, selection, estimators, source, Locking(root, rules))
    if not is_worker(config):  # pytest-xdist ends its workers
        _interrupt_on_sigterm(config)
    return gate


def _interrupt_on_sigterm(config: pytest.Config) -> None:
    """Until the session ends, SIGTERM, with which CI systems cancel a job, ends it as Ctrl-C does.

    Nothing where somebody has a handler already, or in a thread.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        config.add_cleanup(_end_on_sigterm)


def _end_on_sigterm() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _settings_of(config: pytest.Config) -> Settings:
    from .budgets.settings import load_settings

    options = {name: config.getoption(f"membudget_{name}") for name in ("gpu", "measure", "cache", "strict")}
    settings = load_settings(config.rootpath / "pyproject.toml", options)
    if config.pluginmanager.hasplugin(BASE) or FIGURES in os.environ:
        return replace(settings, advice=OFF, snapshots=OFF)
    return settings


def _register_selection(config: pytest.Config, settings: Settings) -> Selection:
    """Register what marks the tests that are selected, here and in the worker's session."""
    from .gate.selection import EVERY, Selection

    patterns = (EVERY,) if config.getoption("membudget") == ALL else settings.tests
    selection = Selection(patterns, config.rootpath)
    config.pluginmanager.register(selection, SELECTION)
    return selection


def _announce_custom_gpus(config: pytest.Config, pyproject: Path) -> None:
    """Add the custom GPUs to the catalogue of this process and its workers, until the session ends."""
    from .budgets.custom_gpus import custom_gpus
    from .hardware.gpus import CUSTOM_GPUS

    environment = pytest.MonkeyPatch()
    config.add_cleanup(environment.undo)
    environment.delenv(CUSTOM_GPUS, raising=False)
    cards = custom_gpus(pyproject)
    if cards:
        environment.setenv(CUSTOM_GPUS, cards)
