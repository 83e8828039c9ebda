"""Facts that every estimate of a session depends on: installed packages, this plugin, settings."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

import pytest
from _pytest.config.findpaths import load_config_dict_from_file

from ..budgets.settings import Settings
from ..names import REFRESH
from .estimates import EstimateCache
from .paths import Names
from .probes import SAYS_NOTHING
from .states import CurrentStates, States, digest_of, entries, variables
from .store import Store, cache_folder, most_bytes

#: Variables that Python, torch, CUDA, Hugging Face's libraries and this plugin read anywhere.
PREFIXES = (
    "ACCELERATE_", "ATEN_", "BITSANDBYTES_", "BNB_", "CUBLAS", "CUDA", "CUDNN", "DS_", "FLASH_ATTENTION_",
    "HF_", "HUGGINGFACE_", "KMP_", "LC_", "LD_", "MEMBUDGET_", "MKL_", "NCCL_", "NVIDIA_", "NVTE_",
    "OMP_", "PEFT_", "PYTHON", "PYTORCH_", "SAFETENSORS_", "TOKENIZERS_", "TORCH", "TRANSFORMERS_",
    "TRITON_", "TRL_", "XFORMERS_",
)  # fmt: skip
NAMES = ("LANG", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE")
#: Files that identify an installed distribution and its origin.
_SAYING = ("RECORD", "METADATA", "PKG-INFO", "direct_url.json", "entry_points.txt")
_DISTRIBUTIONS = (".dist-info", ".egg-info")
_LINKS = (".pth", ".egg-link")
_CODE = (".py", ".so")
#: Options of pytest and plugins that select tests, report on them, or are off in the worker.
_REPORTING = frozenset(
    {
        "allure_report_dir", "basetemp", "cacheclear", "cacheshow", "clean_alluredir", "code_highlight",
        "collectonly", "color", "continue_on_collection_errors", "debug", "deselect", "dist",
        "distload", "durations", "durations_min", "failedfirst", "file_or_dir", "fold_skipped",
        "force_short_summary", "forked", "fulltrace", "help", "htmlpath", "json_report", "junitprefix",
        "keyword", "last_failed_no_failures", "lf", "log_file", "looponfail", "markexpr", "maxfail",
        "maxprocesses", "maxworkerrestart", "loadgroup", "memray", "newfirst", "no_cov", "no_header",
        "no_summary", "numprocesses", "only_rerun", "pastebin", "pyargs", "px", "report_log",
        "reportchars", "reruns", "reruns_delay", "rerun_except", "rsyncdir", "rsyncignore", "setuponly",
        "setupplan", "setupshow", "show_capture", "show_fixtures_per_test", "showcapture",
        "showfixtures", "showlocals", "stepwise", "stepwise_skip", "stepwise_reset", "strict_config",
        "strict_markers", "tbstyle", "testrunuid", "trace", "trace_config", "tx", "usepdb",
        "usepdb_cls", "verbose", "version", "xmlpath", "xfail_tb",
    }
)  # fmt: skip
#: Options of other plugins and ours that only affect what is done with an estimate.
_REPORTING_PREFIXES = ("cov_", "membudget", "html_")
#: pytest-xdist adds it for its workers.
_XDISTS_OWN = "no:terminal"
#: Settings that only affect what is done with an estimate; the worker's device is a separate fact.
_JUDGING = frozenset(
    {
        "measure", "max_growth", "tolerance", "timeout", "cache", "waivers", "processes",
        "strict", "tests", "lift_cuda_skips",
    }
)  # fmt: skip


def cache_of(
    config: pytest.Config,
    settings: Settings,
    folder: str,
    files: Sequence[str],
    device: Sequence[object],
    import_path: Sequence[str],
) -> EstimateCache:
    """The cache for the estimates of a session that was started in ``folder``.

    Its workers collect ``files`` on ``device``: what makes it, the card's name, and how many cards they see.
    ``import_path``: theirs, which may begin with another torch than the session's.
    """
    return EstimateCache(
        Store(cache_folder(os.environ), most_bytes(os.environ)),
        str(config.rootpath),
        lambda current: session_facts(config, settings, folder, files, device, import_path, current),
        finds=settings.cache != REFRESH,
    )


def session_facts(
    config: pytest.Config,
    settings: Settings,
    folder: str,
    files: Sequence[str],
    device: Sequence[object],
    import_path: Sequence[str],
    current: CurrentStates,
) -> dict[str, Any]:
    """All facts that are known before a test runs, in plain JSON types."""
    names, states = current.names, current.states
    arguments = [os.path.normpath(str(arg).partition("::")[0]) for arg in config.args]
    ini = load_config_dict_from_file(config.inipath) if config.inipath is not None else None
    return {
        "plugin": package_digest(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), states),
        "python": [sys.version, sys.implementation.cache_tag, sys.executable, list(map(str, sys.flags))],
        "python_options": [names.plain(sys._xoptions), list(sys.warnoptions)],
        "platform": [platform.system(), platform.machine(), *platform.libc_ver()],
        "distributions": distributions(import_path, names, states),
        "edited": {path: states.of("content", path) for path in edited_files(import_path)},
        "variables": listed_variables(current.environment, names),
        "options": names.plain(counted_options(vars(config.option))),
        "settings": names.plain(counted_settings(settings)),
        "device": list(device),
        "ini": names.plain([str(config.inipath), ini]),  # what the command line sets is an option
        "arguments": sorted({names.name(os.path.join(folder, path)) for path in arguments}),
        "folder": names.name(folder),
        "search": [names.name(os.path.abspath(path)) for path in import_path],
        "test_files": [names.name(path) for path in files],
    }


def counted_settings(settings: Settings) -> dict[str, Any]:
    """Our settings that may change a figure."""
    written = {field.name: getattr(settings, field.name) for field in fields(settings)}
    return {name: value for name, value in written.items() if name not in _JUDGING}


def listed_variables(environment: Mapping[str, str], names: Names) -> dict[str, str | None]:
    """Digests of the variables that count regardless of who reads them."""
    listed = [name for name in sorted(environment) if name.startswith(PREFIXES) or name in NAMES]
    return variables(environment, [name for name in listed if not name.startswith(SAYS_NOTHING)], names)


def counted_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of pytest's ``options`` that may change what a test does."""
    counted = {
        name: value
        for name, value in options.items()
        if name not in _REPORTING and not name.startswith(_REPORTING_PREFIXES)
    }
    if "plugins" in counted:
        counted["plugins"] = [name for name in counted["plugins"] if name != _XDISTS_OWN]
    return counted


def package_digest(folder: str, states: States) -> str:
    """A digest of the package in ``folder``, without bytecode."""
    found = {
        os.path.relpath(path, folder): states.of("content", path)
        for path in _files_below(folder, lambda name: name == "__pycache__")
        if not path.endswith(".pyc")
    }
    return digest_of(found)


def distributions(search: Sequence[str], names: Names, states: States) -> str:
    """A digest of the distributions installed in ``search``: versions, hashes of files, links."""
    found: dict[str, str] = {}
    for folder in dict.fromkeys(search):
        for entry in entries(folder):
            path = os.path.join(folder, entry)
            if entry.endswith(_LINKS):
                found[names.name(path)] = states.of("content", path)
            elif entry.endswith(_DISTRIBUTIONS):
                places = [os.path.join(path, name) for name in _SAYING] if os.path.isdir(path) else [path]
                found[names.name(path)] = " ".join(states.of("content", place) for place in places)
    return digest_of(found)


def edited_files(search: Sequence[str]) -> list[str]:
    """Code of installed packages that was changed after the last installation into its folder."""
    found: list[str] = []
    for folder in dict.fromkeys(search):
        records = [os.path.join(folder, entry, "RECORD") for entry in entries(folder)]
        installed_ns = [_changed_ns(path) for path in records if path.endswith(f".dist-info{os.sep}RECORD")]
        if installed_ns:
            code = _files_below(folder, lambda name: "." in name or name == "__pycache__")
            found += [path for path in code if path.endswith(_CODE) and _changed_ns(path) > max(installed_ns)]
    return sorted(found)


def _changed_ns(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def _files_below(folder: str, is_left_out: Callable[[str], bool]) -> Iterator[str]:
    for place, folders, names in os.walk(folder, followlinks=True):
        folders[:] = [name for name in folders if not is_left_out(name)]
        yield from (os.path.join(place, name) for name in names)
