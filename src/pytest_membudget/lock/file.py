"""Reads and writes membudget.lock.yaml."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Collection, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final

from ..atomic_files import replacing
from ..errors import UsageMistake
from ..results.comparison import LOCK_FILE, UPDATE_COMMAND, LockEntry
from ..units import KIB, gib_text
from ..user_input.fields import table_of
from ..user_input.files import read_yaml
from ..user_input.nodes import UNREADABLE, Mistakes, Node, no_such

VERSION: Final = 1
_KEYS: Final = ("version", "tests")
_ENTRY: Final = table_of(LockEntry, "key")
_HEAD: Final = f"""\
# GPU memory in bytes of the tests whose marks have no `gib`; `pytest --membudget` compares with it.
# Written by `{UPDATE_COMMAND}`.
version: {VERSION}
tests:
"""
_CONFLICT: Final = ("<<<<<<< ", "||||||| ", ">>>>>>> ")
_SIZE: Final = re.compile(r"^ +\w+: (-?\d+)$", re.MULTILINE)


def read_lock(path: Path) -> dict[str, LockEntry] | None:
    """The entries of ``path`` by node id; None if there is no such file.

    Raises ``UsageMistake`` with file, line and what to do for a file that cannot be used as it is.
    """
    if not path.exists() and not path.is_symlink():
        return None
    _refuse_conflict(path)
    root = read_yaml(path, LOCK_FILE) or Node({}, LOCK_FILE, 1)
    mistakes = Mistakes()
    found = {
        nodeid: _read_entry(nodeid, node, mistakes) for nodeid, node in _tests_in(root, mistakes).items()
    }
    mistakes.raise_all()
    return {nodeid: entry for nodeid, entry in found.items() if entry is not None}


def _tests_in(root: Node, mistakes: Mistakes) -> dict[str, Node]:
    """The entries as written. Any other content is a mistake, so that no entry is overlooked."""
    written = root.value if isinstance(root.value, dict) else {}
    version = written.get("version", Node(None, LOCK_FILE, 1))
    if version.value != VERSION:
        remedy = f"this release reads version {VERSION}; restore the file from git, or delete it and run"
        mistakes.refuse(version, "version", f"{remedy} {UPDATE_COMMAND}")
    for key, node in written.items():
        if key not in _KEYS:
            mistakes.add(node, no_such(key, _KEYS, "", "key"))
    tests = written.get("tests")
    if tests is None or not isinstance(tests.value, (dict, type(None))):
        what = "write node ids with their entries below tests"
        mistakes.refuse(tests or root, "tests", f"{what}, or restore the file from git")
        return {}
    return tests.value or {}


def _read_entry(nodeid: str, node: Node, mistakes: Mistakes) -> LockEntry | None:
    values = _ENTRY.read(node, nodeid, mistakes)
    if values is UNREADABLE:
        return None
    entry = LockEntry(**values)
    total = sum(entry.components.values())
    if total != entry.bytes:
        mistakes.refuse(
            node.value["bytes"], "bytes", f"the components add up to {total}; run {UPDATE_COMMAND}=raise"
        )
    return entry


def _refuse_conflict(path: Path) -> None:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageMistake(f"{LOCK_FILE}: the file cannot be read: {error}") from error
    for number, line in enumerate(lines, start=1):
        if line.startswith(_CONFLICT):
            raise UsageMistake(
                f"{LOCK_FILE}:{number}: {line[:60]}: this is a merge conflict; keep the entries of one side, "
                f"as git checkout --theirs {LOCK_FILE} does, and run {UPDATE_COMMAND}"
            )


def change_lock(path: Path, written: Mapping[str, LockEntry], removed: Collection[str]) -> None:
    """Write and remove entries of ``path``, by node id, under a file lock; others stay as they are.

    Raises ``OSError``, and ``UsageMistake`` as ``read_lock``.
    """
    from filelock import FileLock  # only where something is written

    digest = sha256(os.path.abspath(path).encode()).hexdigest()[:16]
    with FileLock(os.path.join(tempfile.gettempdir(), f"membudget-{os.getuid()}-{digest}.lock")):
        before = read_lock(path)
        kept = {nodeid: entry for nodeid, entry in (before or {}).items() if nodeid not in removed}
        after = {**kept, **written}
        if after != before:
            with replacing(path) as file:
                file.write(lock_text(after).encode())


def lock_text(entries: Mapping[str, LockEntry]) -> str:
    """The text of the file: entries sorted, a block each, so that git can merge changes of several tests."""
    import yaml  # a session without such a file need not pay for it

    blocks = [
        yaml.safe_dump({nodeid: entry.to_json()}, sort_keys=False, allow_unicode=True, width=10**6)
        for nodeid, entry in sorted(entries.items())
    ]
    text = "\n".join(re.sub("^", "  ", block.rstrip(), flags=re.MULTILINE) + "\n" for block in blocks)
    return _HEAD + _SIZE.sub(_with_unit, text)


def _with_unit(line: re.Match[str]) -> str:
    size_bytes = int(line[1])
    return f"{line[0]} # {gib_text(size_bytes)}" if abs(size_bytes) >= KIB else line[0]
