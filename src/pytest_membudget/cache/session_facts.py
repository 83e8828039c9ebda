"""Facts that every estimate of a session depends on: installed packages, this plugin, settings, variables."""

import glob
import os
import platform
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

import pytest
from _pytest.config.findpaths import load_config_dict_from_file

from ..budgets.settings import Settings
from ..names import OFF_IN_WORKERS, REFRESH
from .estimates import EstimateCache
from .paths import PACKAGE
from .states import States
from .store import Store, cache_folder, most_bytes

#: Files that identify an installed distribution and its origin; and what leads to code elsewhere.
_SAYING = ("", "RECORD", "METADATA", "PKG-INFO", "direct_url.json", "entry_points.txt")
_INSTALLED = (".dist-info", ".egg-info", ".pth", ".egg-link")
#: Options of pytest and plugins that select tests, or report on them; and those that are off in workers.
_REPORTING = frozenset([
    *OFF_IN_WORKERS,
    "basetemp", "cacheshow", "code_highlight", "color", "continue_on_collection_errors", "durations",
    "durations_min", "file_or_dir", "fold_skipped", "force_short_summary", "fulltrace", "help",
    "junitprefix", "loadgroup", "maxprocesses", "maxworkerrestart", "no_header", "no_summary", "px",
    "randomly_reorganize", "reportchars", "reruns_delay", "show_capture", "showcapture", "showlocals",
    "stepwise_reset", "tbstyle", "testrunuid", "usepdb_cls", "verbose", "xfail_tb",
])  # fmt: skip
#: Options of other plugins and ours that only affect what is done with an estimate.
_REPORTING_PREFIXES = ("cov_", "membudget", "html_", "random_order_")
#: pytest-xdist adds it for its workers.
_XDISTS_OWN = "no:terminal"
#: Settings that only affect what is done with an estimate; the worker's device is a separate fact, and
#: custom GPUs are in a variable.
_JUDGING = frozenset([
    "gpus", "measure", "max_growth", "tolerance", "timeout", "cache", "strict", "tests",
    "lift_cuda_skips", "advice", "snapshots"
])  # fmt: skip


def cache_of(
    config: pytest.Config,
    settings: Settings,
    arguments: Sequence[str],
    folder: str,
    files: Sequence[str],
    device: Sequence[object],
    import_path: Sequence[str],
) -> EstimateCache:
    """The cache for the estimates of a session that was started in ``folder`` with ``arguments``.

    Its workers collect ``files`` on ``device``: what makes it, the card's name, and how many cards they see.
    ``import_path``: theirs, which may begin with another torch than the session's.
    """

    def facts(states: States) -> dict[str, Any]:
        places = {os.path.normpath(str(arg).partition("::")[0]) for arg in config.args}
        return {
            **installation(import_path, states),
            "options": counted_options(vars(config.option), arguments),
            "settings": {
                one.name: getattr(settings, one.name) for one in fields(settings) if one.name not in _JUDGING
            },
            "ini": [config.inipath, config.inipath and load_config_dict_from_file(config.inipath)],
            "session": [device, folder, files, sorted(os.path.join(folder, path) for path in places)],
        }

    store = Store(cache_folder(os.environ), most_bytes(os.environ))
    return EstimateCache(store, str(config.rootpath), facts, finds=settings.cache != REFRESH)


def installation(import_path: Sequence[str], states: States) -> dict[str, Any]:
    """What is installed for the workers: Python, this plugin, distributions, and code edited there."""
    path = list(dict.fromkeys(map(os.path.abspath, import_path)))
    files = [*_files_below(PACKAGE), *distributions(path), *edited_files(path)]
    return {
        "python": [sys.version, sys.executable, sys.flags, sys._xoptions, sys.warnoptions],
        "platform": [platform.system(), platform.machine(), platform.libc_ver()],
        "path": path,
        "files": {file: states.of("state", file) for file in files},
    }


def counted_options(options: Mapping[str, Any], arguments: Sequence[str]) -> dict[str, Any]:
    """Those of pytest's ``options`` that may change what a test does.

    A seed that ``arguments`` do not give is pytest-randomly's of this session, and estimates have none.
    """
    counted = {
        name: value
        for name, value in options.items()
        if name not in _REPORTING and not name.startswith(_REPORTING_PREFIXES)
    }
    if "plugins" in counted:
        counted["plugins"] = [name for name in counted["plugins"] if name != _XDISTS_OWN]
    if not any(argument.startswith("--randomly-seed") for argument in arguments):
        counted.pop("randomly_seed", None)
    return counted


def distributions(search: Iterable[str]) -> list[str]:
    """The files that say what is installed in ``search``: versions, hashes of files, links."""
    installed = (path for folder in search for path in _inside(folder) if path.endswith(_INSTALLED))
    return [os.path.join(path, name).rstrip(os.sep) for path in installed for name in _SAYING]


def edited_files(search: Iterable[str]) -> list[str]:
    """Code of installed packages that was changed after the last installation into its folder."""
    found: list[str] = []
    for folder in search:
        records = [os.path.join(path, "RECORD") for path in _inside(folder) if path.endswith(".dist-info")]
        if records:
            last_ns = max(map(_changed_ns, records))
            code = (path for path in _files_below(folder) if path.endswith((".py", ".so")))
            found += (path for path in code if _changed_ns(path) > last_ns)
    return sorted(found)


def _inside(folder: str) -> list[str]:
    return glob.glob(os.path.join(glob.escape(folder), "*"))


def _changed_ns(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def _files_below(folder: str) -> Iterator[str]:
    """The files of packages: not those of bytecode, and of distributions' metadata."""
    for place, folders, names in os.walk(folder, followlinks=True):
        folders[:] = [name for name in folders if "." not in name and name != "__pycache__"]
        yield from (os.path.join(place, name) for name in names if not name.endswith(".pyc"))
