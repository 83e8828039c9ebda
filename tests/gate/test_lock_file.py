"""membudget.lock.yaml: what is written is read back, mistakes say what to do, and git merges it."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_membudget.errors import UsageMistake
from pytest_membudget.gate.lock_file import change_lock, lock_text, read_lock
from pytest_membudget.results.comparison import LOCK_FILE, LockEntry

ENTRY = LockEntry(
    2**30, "allocated", {"parameters": 2**30 - 512, "rounding": 512}, 1, "H100-80GB", "stand-in", "2.13.0"
)
NODEIDS = [
    "a.py::test_a",
    "a.py::test_b[x: #1]",
    "b.py::A::test[é\U0001f600-\\x00-'\"]",
    "b.py::" + "long" * 400,
]


@pytest.fixture
def path(tmp_path):
    return tmp_path / LOCK_FILE


def refusal_of(path, text):
    path.write_text(text)
    with pytest.raises(UsageMistake) as error:
        read_lock(path)
    return str(error.value)


def test_what_is_written_is_read_back_sorted(path):
    entries = dict.fromkeys(NODEIDS, ENTRY)
    text = lock_text(dict(reversed(entries.items())))
    path.write_text(text, encoding="utf-8")

    assert read_lock(path) == entries
    assert text == lock_text(entries)
    assert "bytes: 1073741824 # 1.00 GiB\n" in text


def test_no_file_is_no_mistake(path):
    assert read_lock(path) is None


WHILE = LockEntry(2**30, until="2026-12-31", reason="a new optimizer")


def test_an_entry_with_a_day_is_written_by_hand_with_three_keys(path):
    keys = ("bytes: 1073741824", "until: 2026-12-31", "reason: a new optimizer")
    path.write_text("\n    ".join(["version: 1\ntests:\n  a:", *keys]))

    assert read_lock(path) == {"a": WHILE}
    path.write_text(lock_text({"a": WHILE, "b": ENTRY}))
    assert read_lock(path) == {"a": WHILE, "b": ENTRY}


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("version: 1", "version: 2", "membudget.lock.yaml:3: version: 2: this release reads version 1;"),
        ("bytes: 1073741824", "bytes: 1", "bytes: 1: the components add up to 1073741824; run"),
        ("bytes: 1073741824", f"bytes: 1{'0' * 400}", "0...: write a whole number of at least 0"),
        ("bytes: 1073741824", "bytes: many", "bytes: many: write a whole number of at least 0"),
        ("gpus: 1", "gpu_count: 1", "there is no key"),
        ("    gpus: 1\n", "", "gpus is missing"),
        ("rounding", "roundings", "there is no component roundings"),
        ("    gpu: H", "    gpu: \x7fH", "this is no YAML"),
        ("tests:", "test:", "membudget.lock.yaml:4: there is no key test; did you mean tests?"),
        (
            "tests:",
            "others: 1\ntests:",
            "there is no key others; the keys are version, tests",
        ),
    ],
)
def test_what_cannot_be_used_is_named_with_its_line(path, old, new, text):
    good = lock_text({"a": ENTRY})
    assert old in good

    assert text in refusal_of(path, good.replace(old, new))


HALF = "version: 1\ntests:\n  a:\n    bytes: 1\n    {}\n"
TABLE = "write node ids with their entries below tests"
WHOLE = lock_text({"a": ENTRY})


@pytest.mark.parametrize(
    ("text", "beginning", "said"),
    [
        (HALF.format("until: soon\n    reason: x"), "", "until: soon: write a day, as in 2026-12-31"),
        (HALF.format("until: 2026-12-31"), "", "a.reason is missing"),
        (HALF.format("reason: x"), "", "a.until is missing"),
        (HALF.format("gpus: 1"), "", "a.torch is missing"),
        ("version: 1\ntests: 5\n", ":2: tests: 5", TABLE),
        ("version: 1\ntests: [a]\n", ":2: tests: [a]", TABLE),
        ("version: 1\n\n", ":1: ", TABLE),
        (WHOLE + "\n" + WHOLE.partition("tests:\n")[2], "", "a is there twice"),
        (
            WHOLE.replace("tests:\n", "tests:\n<<<<<<< HEAD\n"),
            ":5: <<<<<<< HEAD: this is a merge conflict; keep the entries",
            "and run pytest --membudget --membudget-update$",
        ),
        *((text, "", "") for text in ("", "tests: {}\n", "- 1\n", "\0")),
    ],
)
def test_what_is_no_lock_file_is_refused_with_what_to_write(path, text, beginning, said):
    message = refusal_of(path, text)

    assert message.startswith(f"membudget.lock.yaml{beginning}")
    assert said in f"{message}$"


def test_a_file_without_entries_is_read(path):
    path.write_text(lock_text({}))

    assert read_lock(path) == {}


def test_a_fifo_is_refused(path):
    os.mkfifo(path)

    with pytest.raises(UsageMistake, match="this is no regular file"):
        read_lock(path)


def test_changes_of_two_branches_merge(tmp_path):
    base = dict.fromkeys(("a", "b", "c", "e"), ENTRY)
    ours = {**base, "b": replace(ENTRY, bytes=2**29, components={"parameters": 2**29})}
    theirs = {**base, "c": replace(ENTRY, bytes=2**28, components={"inputs": 2**28}), "f": ENTRY}
    for name, entries in (("base", base), ("ours", ours), ("theirs", theirs)):
        (tmp_path / name).write_text(lock_text(entries))

    merged = subprocess.run(
        ["git", "merge-file", "-p", "ours", "base", "theirs"], cwd=tmp_path, capture_output=True, text=True
    )

    assert merged.returncode == 0, merged.stdout
    assert merged.stdout == lock_text({**ours, "c": theirs["c"], "f": ENTRY})


def test_a_write_that_fails_leaves_what_was_there(path, monkeypatch):
    path.write_text(lock_text({"a": ENTRY}))

    def replace_file(self, target):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "replace", replace_file)
    with pytest.raises(OSError, match="Read-only"):
        change_lock(path, {"b": ENTRY}, ())

    assert read_lock(path) == {"a": ENTRY}
    assert [child.name for child in path.parent.iterdir()] == [LOCK_FILE]


def test_what_does_not_change_is_not_written(path, monkeypatch):
    path.write_text(lock_text({"a": ENTRY}))
    monkeypatch.delattr(Path, "replace")

    change_lock(path, {}, ())
