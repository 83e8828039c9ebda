"""What every estimate of a session depends on: the installation, this plugin, the settings, the request."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .environment import listed_variables
from .files import Files, digest
from .imports import Imports
from .reach import Names, is_below

#: Of an installed distribution these say which it is, and where from.
_SAYING = ("RECORD", "METADATA", "PKG-INFO", "direct_url.json", "entry_points.txt")
_DISTRIBUTIONS = (".dist-info", ".egg-info")
_LINKS = (".pth", ".egg-link")
#: pytest's and plugins' options that choose tests, or report on them, or are off in the worker.
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
#: Other plugins' and our own options that only say what is done with an estimate.
_REPORTING_PREFIXES = ("cov_", "membudget", "html_")
#: pytest-xdist adds it for its workers.
_XDISTS_OWN = "no:terminal"


def session_facts(
    names: Names,
    files: Files,
    *,
    options: Mapping[str, Any],
    settings: Mapping[str, Any],
    ini: Mapping[str, Any],
    arguments: Sequence[str],
    folder: str,
    root: str,
    test_files: Sequence[str],
) -> dict[str, Any]:
    """All that is known before a test is run; plain JSON types.

    ``arguments``: the paths that the session was given. ``folder``: where it was started. ``ini``: the
    settings of pytest. ``test_files``: what a worker collects.
    """
    return {
        "plugin": package_digest(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), files),
        "python": [sys.version, sys.implementation.cache_tag, sys.executable, list(map(str, sys.flags))],
        "python_options": [names.plain(sys._xoptions), list(sys.warnoptions)],
        "platform": [platform.system(), platform.machine(), *platform.libc_ver()],
        "torch": torch_facts(files),
        "distributions": distributions(sys.path, names),
        "edited": {path: files.state(path) for path in edited_files(sys.path)},
        "variables": listed_variables(os.environ, names),
        "options": names.plain(counted_options(options)),
        "settings": names.plain(settings),
        "ini": names.plain(ini),
        "arguments": sorted({names.name(os.path.join(folder, path)) for path in arguments}),
        "folder": names.name(folder),
        "search": [names.name(os.path.abspath(path)) for path in sys.path],
        "test_files": [names.name(path) for path in test_files],
        "conftests": {names.name(path): files.state(path) for path in _conftests(root, test_files)},
    }


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


def package_digest(folder: str, files: Files) -> str:
    """A digest of all that is in the package in ``folder``, save bytecode."""
    states = {
        os.path.relpath(path, folder): files.state(path)
        for path in _files_below(folder)
        if not path.endswith(".pyc")
    }
    return digest(json.dumps(states, sort_keys=True).encode())


def torch_facts(files: Files) -> list[str | None]:
    """Where torch is, and a digest of the file that has its version, its commit and its CUDA."""
    origin = Imports().origin("torch")
    if origin is None:
        return [None]
    return [origin, files.state(os.path.join(os.path.dirname(origin), "version.py"))]


def distributions(search: Sequence[str], names: Names) -> str:
    """A digest of what is installed in the folders of ``search``: versions, files' hashes, links."""
    found: dict[str, str] = {}
    for folder in dict.fromkeys(search):
        for entry in _entries(folder):
            path = os.path.join(folder, entry)
            if entry.endswith(_LINKS):
                found[names.name(path)] = _digest_of(path)
            elif entry.endswith(_DISTRIBUTIONS):
                places = [os.path.join(path, name) for name in _SAYING] if os.path.isdir(path) else [path]
                found[names.name(path)] = "".join(map(_digest_of, places))
    return digest(json.dumps(found, sort_keys=True).encode("utf-8", "surrogatepass"))


def edited_files(search: Sequence[str]) -> list[str]:
    """Code of installed packages that was changed after the last installation into its folder."""
    found: list[str] = []
    for folder in dict.fromkeys(search):
        records = [os.path.join(folder, entry, "RECORD") for entry in _entries(folder)]
        installed_ns = [_changed_ns(path) for path in records if path.endswith(f".dist-info{os.sep}RECORD")]
        if installed_ns:
            found += [path for path in _code_below(folder) if _changed_ns(path) > max(installed_ns)]
    return sorted(found)


def _changed_ns(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def _code_below(folder: str) -> Iterator[str]:
    folders = [folder]
    while folders:
        with contextlib.suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.name.endswith((".py", ".so")):
                    yield entry.path
                elif "." not in entry.name and entry.name != "__pycache__" and entry.is_dir():
                    folders.append(entry.path)


def _entries(folder: str) -> list[str]:
    try:
        return os.listdir(folder or os.curdir)
    except OSError:
        return []


def _digest_of(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return digest(file.read())
    except OSError:
        return "-"


def _files_below(folder: str) -> Iterator[str]:
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != "__pycache__"]
        yield from (os.path.join(place, name) for name in names)


def _conftests(root: str, test_files: Sequence[str]) -> list[str]:
    """Where a ``conftest.py`` would be one of ``test_files``'s, from the root folder on."""
    found: dict[str, None] = {}
    for path in test_files:
        folder = os.path.dirname(path)
        while is_below(folder, [root]):
            found[os.path.join(folder, "conftest.py")] = None
            if folder == root:
                break
            folder = os.path.dirname(folder)
    return sorted(found)
