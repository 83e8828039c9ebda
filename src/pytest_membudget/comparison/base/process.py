"""The process that estimates the base: pytest with the base's own code and libraries.

It runs until its session ends it; if the session is killed, it removes the worktree.
"""

import os
import shutil
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from ...budgets.node_ids import nodeid_of
from ...names import BASE, GATE, MARKER
from ...worker.processes import leave
from ...worker.protocol import Channel
from ...worker.server.session_options import disable_side_effects
from .exchange import Base, Exchange, Order, own_facts
from .foreign_imports import foreign_text, write_imports
from .git import remove_worktree, worktree_in

#: Options that choose tests: repeated from the head's command line.
_CHOICE = ("keyword", "markexpr", "deselect")


def main(read_fd: int, write_fd: int) -> None:
    """Serve the session at the other end of the two pipes: one order; never returns."""
    channel = Channel(read_fd, write_fd)
    status = 1
    try:
        received = channel.receive()
        if received is not None:
            order = Order.from_json(received)
            threading.Thread(target=_end_with_session, args=(channel, order), daemon=True).start()
            os.chdir(order.dir)
            # without a result the session reports the output
            status = int(pytest.main([*order.args], plugins=[BasePlugin(order)]))
    finally:
        leave(status)


def _end_with_session(channel: Channel, order: Order) -> None:
    """Remove the worktree when the session ends early: its own cleanup may not run."""
    while channel.receive() is not None:
        pass
    os.chdir(os.sep)
    folder, top = Path(order.folder), Path(order.top)
    remove_worktree(top, worktree_in(folder, top))
    shutil.rmtree(folder, ignore_errors=True)
    leave(1)


class BasePlugin:
    """Collects the files of the head's command line, estimates what the head runs, and ends."""

    #: pluggy registers the object under this name
    __name__ = BASE

    def __init__(self, order: Order) -> None:
        self._exchange = Exchange(Path(order.folder))
        self._head = order.head
        self._scratch = os.path.join(order.folder, "scratch")
        os.mkdir(self._scratch)
        self._removed: list[str] = []
        self._errors: dict[str, str] = {}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_load_initial_conftests(self, early_config: pytest.Config) -> Generator[None, object, object]:
        """Prepare before other plugins that begin as early as this."""
        self._silence(early_config.known_args_namespace)
        return (yield)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_cmdline_parse(self) -> Generator[None, pytest.Config, pytest.Config]:
        """Estimate, and do nothing else that the command line asks for."""
        config = yield
        self._silence(config.option)
        if self._head.files is not None:
            config.args = [path for path in self._head.files if os.path.exists(path)]
        return config

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Deselect what the head does not run; record tests that the head has removed."""
        named = [(item, nodeid_of(item)) for item in items]
        marked = [nodeid for item, nodeid in named if item.get_closest_marker(MARKER) is not None]
        known, selected = set(self._head.collected), set(self._head.selected)
        self._removed = [nodeid for nodeid in marked if nodeid not in known]
        items[:] = [item for item, nodeid in named if nodeid in selected]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Record why a file or folder could not be collected."""
        if report.failed:
            self._errors[report.nodeid] = _cause(report.longreprtext)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Write the result and wait; this process ends with the head's session."""
        gate: Any = session.config.pluginmanager.getplugin(GATE)
        gate.estimators.close()
        write_imports()
        results = {result.nodeid: result for result in gate.session.results.in_order()}
        trouble = foreign_text(self._exchange.folder)
        own = Base(results, own_facts(), errors=self._errors, removed=tuple(self._removed))
        self._exchange.write(Base(trouble=trouble) if trouble else own)
        threading.Event().wait()
        return True

    def _silence(self, option: Any) -> None:
        chosen = {name: getattr(option, name) for name in _CHOICE if hasattr(option, name)}
        disable_side_effects(option, self._scratch)
        ours = {
            "collectonly": True,  # the gate estimates; no test's own phases run here
            "continue_on_collection_errors": True,
            "membudget_compare": None,
            "membudget_measure": "off",
            "membudget_strict": False,  # compared even if it is not fully checked
            "membudget_report": option.membudget_report and os.path.join(self._scratch, "report"),
        }
        for name, value in {**chosen, **ours}.items():
            setattr(option, name, value)


def _cause(text: str) -> str:
    """The line of a collection error with the exception."""
    lines = [line for line in text.strip().splitlines() if line.strip()]
    errors = [line[1:].strip() for line in lines if line.startswith("E ")]
    return (errors or lines or ["no message"])[-1 if not errors else 0]
