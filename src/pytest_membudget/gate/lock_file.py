"""The lock file of tests without ``gib``: reads it, compares results with it, and updates it."""

import datetime
import os
import re
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ..atomic_files import replacing
from ..budgets.budget import Growth
from ..budgets.settings import DEFAULT_GPU
from ..budgets.verdict import UNDECIDED, UNSET, WITHIN
from ..errors import UsageMistake
from ..results.comparison import (
    GROWN,
    LOCK_FILE,
    NEW,
    NOT_COMPARABLE,
    RAISE_COMMAND,
    SHRUNK,
    UNCHANGED,
    UPDATE_COMMAND,
    LockCheck,
    LockEntry,
    component_changes,
    more_held,
    share_text,
)
from ..results.test_result import TestResult, with_lock
from ..units import KIB, gib_text
from ..user_input.fields import Table, fields_of
from ..user_input.files import read_text, read_yaml
from ..user_input.nodes import UNREADABLE, Mistakes, Node, no_such

#: What ``--membudget-update`` may do: ``UPDATE`` writes new and lower figures, ``RAISE`` higher ones too.
UPDATE, RAISE = "update", "raise"
#: Most node ids that a line names.
_NAMED = 3
#: Facts that make two figures incomparable, as messages name them.
FACTS = ("metric", "gpus", "gpu", "device", "torch")
VERSION: Final = 1
_KEYS: Final = ("version", "tests")
_ENTRY: Final = Table(fields_of(LockEntry), what="key")
_HEAD: Final = f"""\
# GPU memory in bytes of the tests whose marks have no `gib`; `pytest --membudget` compares with it.
# Written by `{UPDATE_COMMAND}`. An entry with `bytes`, `until` and `reason` is written by hand.
version: {VERSION}
tests:
"""
_CONFLICT: Final = ("<<<<<<< ", "||||||| ", ">>>>>>> ")
_SIZE: Final = re.compile(r"^ +\w+: (-?\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Rules:
    """How a session compares with the lock file."""

    tolerance: Growth
    torch: str
    """The version of torch of this session."""
    mode: str | None = None
    """``UPDATE``, ``RAISE``, or None where the file is only read."""
    today: str = field(default_factory=lambda: datetime.date.today().isoformat())


class Locking:
    """Compares results with the lock file of a project, and collects what changes in it."""

    def __init__(self, folder: Path, rules: Rules) -> None:
        """``folder``: of pyproject.toml. Raises ``UsageMistake`` if the file cannot be used."""
        self._path = folder / LOCK_FILE
        self._rules = rules
        entries = read_lock(self._path)
        self._is_on = entries is not None or rules.mode is not None
        self._entries = entries or {}

    def check(self, result: TestResult) -> TestResult:
        """``result`` with its comparison, if the project has a lock file or this session writes one."""
        entry = self._entries.get(result.nodeid)
        check = lock_check(result, entry, self._rules) if self._is_on else None
        return with_lock(result, check) if check is not None else result

    def finish(self, results: Sequence[TestResult], collected: Collection[str] | None) -> list[str]:
        """Update the file with ``--membudget-update``, and return lines for the summary.

        ``collected``: all tests with budgets; None if the session has not collected all. Raises
        ``UsageMistake`` if the file could not be written.
        """
        entries = self._entries
        stale = {nodeid for nodeid in entries if collected is not None and nodeid not in collected}
        if self._rules.mode is None:
            names = ", ".join(sorted(stale)[:_NAMED])
            more = f" and {len(stale) - _NAMED} more" if len(stale) > _NAMED else ""
            line = f"{LOCK_FILE}: no test with a budget for {names}{more}; run {UPDATE_COMMAND}"
            return [*([line] if stale else []), *_idle_lines(results)]
        recorded = {one.nodeid: one.lock.base for one in results if one.lock and one.lock.recorded}
        written = {nodeid: entry for nodeid, entry in recorded.items() if entry is not None}
        with_gib = {one.nodeid for one in results if one.budget is not None and one.budget.gib is not None}
        removed = stale | (with_gib & {nodeid for nodeid, entry in entries.items() if entry.until is None})
        if not (written or removed):
            return [f"{LOCK_FILE}: nothing to update"]
        try:
            change_lock(self._path, written, removed)
        except OSError as error:
            what = "cannot be written, so nothing was recorded"
            raise UsageMistake(f"{self._path}: {what}: {error}") from error
        return [f"{LOCK_FILE}: {len(written)} written, {len(removed)} removed"]


def lock_check(result: TestResult, entry: LockEntry | None, rules: Rules) -> LockCheck | None:
    """Compare ``result`` with ``entry``; if that is not possible, say why. None if it has no place there."""
    now = _entry_of(result, rules)
    if entry is not None and entry.until is not None and (now is None or rules.mode != RAISE):
        return _for_a_while(result, entry, entry.until, rules)
    if now is None:
        return None
    if entry is None:
        if rules.mode is None:
            return LockCheck(NEW, f"no entry in {LOCK_FILE}; run {UPDATE_COMMAND}")
        return _recorded(NEW, now, "new", rules)
    difference = _difference(entry, now)
    if difference and rules.mode is None:
        reason = f"not compared with {LOCK_FILE}: {difference}; run {UPDATE_COMMAND}"
        return LockCheck(NOT_COMPARABLE, reason, entry)
    allowed_bytes = rules.tolerance.allowed_bytes(entry.bytes)
    limit_bytes = entry.bytes + allowed_bytes
    more_held_bytes = more_held(now.held_bytes, entry.held_bytes)
    holds_more = more_held_bytes > rules.tolerance.allowed_bytes(entry.held_bytes or 0)
    if holds_more and now.bytes <= limit_bytes and rules.mode != RAISE:
        reason = f"holds {gib_text(more_held_bytes)} more when its body ends than its entry in {LOCK_FILE}"
        return LockCheck(GROWN, f"{reason}; if it may, run {RAISE_COMMAND}", entry, limit_bytes)
    if now.bytes > limit_bytes and rules.mode != RAISE:
        reason = _grown_text(result, entry, now) + (f" ({difference})" if difference else "")
        return LockCheck(GROWN, reason, entry, limit_bytes)
    is_no_more = now.bytes <= entry.bytes and more_held_bytes <= 0
    if rules.mode is not None and now != entry and (difference or is_no_more):
        return _recorded(SHRUNK, now, f"was {gib_text(entry.bytes)}", rules)
    if rules.mode == RAISE and now != entry:
        return _recorded(GROWN, now, f"raised from {gib_text(entry.bytes)}", rules)
    if entry.bytes - now.bytes > allowed_bytes:
        less = share_text(now.bytes - entry.bytes, entry.bytes)
        reason = f"takes {less} less than its entry in {LOCK_FILE}; run {UPDATE_COMMAND}"
        return LockCheck(SHRUNK, reason, entry, limit_bytes)
    return LockCheck(UNCHANGED, f"as in {LOCK_FILE}", entry, limit_bytes)


def _for_a_while(result: TestResult, entry: LockEntry, until: str, rules: Rules) -> LockCheck:
    """Compare ``result`` with an entry that holds up to a day, in place of its budget."""
    size_bytes = result.figure.peak_bytes if result.figure is not None else 0
    limit_bytes = entry.bytes + rules.tolerance.allowed_bytes(entry.bytes)
    if size_bytes > limit_bytes:
        more = gib_text(size_bytes - entry.bytes)
        reason = f"{more} more than its entry in {LOCK_FILE} allows until {until}"
        return LockCheck(GROWN, reason, entry, limit_bytes, allowed=False)
    if rules.today > until:
        reason = f"its entry in {LOCK_FILE} ({entry.reason}) held until {until}"
        return LockCheck(UNCHANGED, reason, entry, limit_bytes, allowed=False)
    reason = f"{entry.reason} (up to {gib_text(entry.bytes)} until {until})"
    return LockCheck(UNCHANGED, reason, entry, limit_bytes, allowed=True)


def _idle_lines(results: Sequence[TestResult]) -> list[str]:
    """A line for each entry that excuses a test which is within its budget and was checked."""
    return [
        f"{LOCK_FILE}: {one.nodeid} keeps to its budget without its entry; take the entry out"
        for one in results
        if one.lock is not None
        and one.lock.allowed is not None
        and (one.verdict, one.excused_until) == (WITHIN, None)
        and not (one.fails or one.unchecked_caveats)
        and one.budget is not None
        and one.budget.gib is not None
    ]


def _entry_of(result: TestResult, rules: Rules) -> LockEntry | None:
    """The entry of ``result``; None if it has no figure, or its budget has a ``gib``."""
    figure, budget = result.worst_estimate, result.budget
    if figure is None or not figure.peak_bytes or result.verdict not in (WITHIN, UNDECIDED, UNSET):
        return None
    if budget is None or budget.gib is not None:
        return None
    return LockEntry(
        bytes=figure.peak_bytes,
        metric=figure.metric,
        components={name: size for name, size in figure.components.items() if size},
        gpus=budget.gpus,
        gpu=budget.gpu or DEFAULT_GPU,
        device=figure.device or figure.kind,
        torch=rules.torch,
        held_bytes=figure.held_bytes,
    )


def _recorded(status: str, now: LockEntry, how: str, rules: Rules) -> LockCheck:
    limit_bytes = now.bytes + rules.tolerance.allowed_bytes(now.bytes)
    return LockCheck(status, f"recorded in {LOCK_FILE}: {how}", now, limit_bytes, recorded=True)


def _difference(entry: LockEntry, now: LockEntry) -> str:
    """The differences in what the two figures were made with; empty if they can be compared."""
    pairs = [(name, getattr(entry, name), getattr(now, name)) for name in FACTS]
    return ", ".join(f"its {name} is {was}, now {is_}" for name, was, is_ in pairs if was != is_)


def _grown_text(result: TestResult, entry: LockEntry, now: LockEntry) -> str:
    figure = result.worst_estimate
    rank = f"rank {figure.rank} of {now.gpus}: " if figure is not None and (now.gpus or 1) > 1 else ""
    changes = component_changes(now.components, entry.components).items()
    grew = ", ".join([f"{name} +{gib_text(size)}" for name, size in changes if size > 0][:2])
    more = share_text(now.bytes - entry.bytes, entry.bytes)
    return f"{rank}takes {more} more than its entry in {LOCK_FILE}: {grew}; if it may, run {RAISE_COMMAND}"


def read_lock(path: Path) -> dict[str, LockEntry] | None:
    """The entries of ``path`` by node id; None if there is no such file.

    Raises ``UsageMistake`` with file, line and what to do for a file that cannot be used as it is.
    """
    if not path.exists() and not path.is_symlink():
        return None
    _refuse_conflict(path)
    root = read_yaml(path, LOCK_FILE) or Node({}, LOCK_FILE, 1)
    mistakes = Mistakes()
    tests = _tests_in(root, mistakes)
    found = {nodeid: _read_entry(nodeid, node, mistakes) for nodeid, node in tests.items()}
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
    needed = ("until", "reason") if entry.until or entry.reason else (*FACTS, "components")
    for name in (name for name in needed if name not in values):
        mistakes.add(node, f"{nodeid}.{name} is missing: {_ENTRY.by_name[name].doc}")
    total = sum(entry.components.values())
    if total != entry.bytes and entry.until is None:
        what = f"the components add up to {total}; run {UPDATE_COMMAND}=raise"
        mistakes.refuse(node.value["bytes"], "bytes", what)
    return entry


def _refuse_conflict(path: Path) -> None:
    for number, line in enumerate(read_text(path, LOCK_FILE).splitlines(), start=1):
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

    # one for all projects of a user, as it stays there
    with FileLock(os.path.join(tempfile.gettempdir(), f"membudget-{os.getuid()}.lock")):
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
        yaml.safe_dump({nodeid: _written(entry)}, sort_keys=False, allow_unicode=True, width=10**6)
        for nodeid, entry in sorted(entries.items())
    ]
    text = "\n".join(re.sub("^", "  ", block.rstrip(), flags=re.MULTILINE) + "\n" for block in blocks)
    return _HEAD + _SIZE.sub(_with_unit, text)


def _written(entry: LockEntry) -> dict[str, Any]:
    return {name: value for name, value in entry.to_json().items() if value is not None and value != {}}


def _with_unit(line: re.Match[str]) -> str:
    size_bytes = int(line[1])
    return f"{line[0]} # {gib_text(size_bytes)}" if abs(size_bytes) >= KIB else line[0]
