"""What is kept: whole or not there, whoever writes at the same time, and never more than it may be."""

import multiprocessing
import os
import random
import tempfile
import zlib
from pathlib import Path

import pytest

from pytest_membudget.cache.store import MOST_BYTES, Store, cache_folder, most_bytes
from pytest_membudget.units import MIB

KEY = "ab" + "0" * 38


def answer(number):
    """An answer whose entry has 10.3 kB."""
    filling = random.Random(number).randbytes(8800).hex()
    return {"outcome": "traced", "number": number, "filling": filling}


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path)


def files(store):
    return sorted(path for path in store._folder.rglob("*") if path.is_file())


# Where


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"MEMBUDGET_CACHE_DIR": "/there", "XDG_CACHE_HOME": "/caches"}, Path("/there")),
        ({"XDG_CACHE_HOME": "/caches"}, Path("/caches/pytest-membudget")),
        ({"XDG_CACHE_HOME": "caches"}, Path(os.path.expanduser("~/.cache/pytest-membudget"))),
        ({}, Path(os.path.expanduser("~/.cache/pytest-membudget"))),
        ({"MEMBUDGET_CACHE_DIR": ""}, Path(os.path.expanduser("~/.cache/pytest-membudget"))),
    ],
)
def test_the_folder_is_the_named_one_or_the_platforms(environment, folder):
    assert cache_folder(environment) == folder


@pytest.mark.parametrize(
    ("text", "expected"), [("10", 10 * MIB), ("0", 0), ("", MOST_BYTES), ("-1", MOST_BYTES)]
)
def test_the_size_is_a_number_of_mib(text, expected):
    assert most_bytes({"MEMBUDGET_CACHE_MIB": text}) == expected


# What


def test_components_keep_the_order_of_the_answer(store):
    store.keep(KEY, {}, {"components": {"parameters": 2, "activations": 1}})
    [entry] = store.entries(KEY)

    assert [*entry.answer["components"]] == ["parameters", "activations"]


def test_what_is_kept_is_found(store):
    store.keep(KEY, {"states": {"a": "1"}}, answer(1))

    (entry,) = store.entries(KEY)
    assert entry.depends == {"states": {"a": "1"}}
    assert entry.answer == answer(1)


def test_the_same_dependencies_have_one_entry(store):
    store.keep(KEY, {"a": 1}, answer(1))
    store.keep(KEY, {"a": 1}, answer(2))
    store.keep(KEY, {"a": 2}, answer(3))

    assert sorted(entry.answer["number"] for entry in store.entries(KEY)) == [2, 3]


def test_a_state_of_the_code_that_comes_back_is_still_there_among_16(store):
    for number in range(20):
        store.keep(KEY, {"a": number}, answer(number))
        (newest,) = [entry for entry in store.entries(KEY) if entry.answer["number"] == number]
        os.utime(newest.path, (number, number))

    assert sorted(entry.answer["number"] for entry in store.entries(KEY)) == list(range(4, 20))
    assert len(files(store)) == 16


def damaged(data):
    yield b""
    yield data[:-20]
    yield data[:-1] + bytes([data[-1] ^ 1])
    yield data[: len(data) // 2] + bytes(10) + data[len(data) // 2 + 10 :]
    yield zlib.decompress(data)
    yield zlib.compress(b"[]")
    yield zlib.compress(b"not JSON")
    yield zlib.compress(b"{}")
    yield b"\xff\xfe" + data
    yield os.urandom(1000)


def test_a_damaged_entry_is_none(store):
    store.keep(KEY, {"a": 1}, answer(1))
    (path,) = files(store)
    data = path.read_bytes()

    for wrong in damaged(data):
        path.write_bytes(wrong)
        assert list(store.entries(KEY)) == [], wrong[:60]
    path.write_bytes(data)
    assert len(list(store.entries(KEY))) == 1


def test_a_write_that_fails_leaves_what_was_there_and_nothing_else(store, monkeypatch):
    store.keep(KEY, {"a": 1}, answer(1))

    def full(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        store.keep(KEY, {"a": 1}, answer(2))

    (entry,) = store.entries(KEY)
    assert entry.answer == answer(1)
    assert len(files(store)) == 1


# How much


def test_what_was_not_used_for_longest_goes_first(tmp_path):
    store = Store(tmp_path, most=10 * 10_500)
    for number in range(12):
        key = f"{number:02}" + KEY[2:]
        store.keep(key, {}, answer(number))
        os.utime(next(store.entries(key)).path, (1000 + number, 1000 + number))
    store.used(next(store.entries("00" + KEY[2:])))

    store.trim()

    left = [number for number in range(12) if list(store.entries(f"{number:02}" + KEY[2:]))]
    assert left == [0, 5, 6, 7, 8, 9, 10, 11]  # 8 of 10.3 kB are 80% of what may be


def test_nothing_goes_while_it_is_little(store):
    store.keep(KEY, {}, answer(1))
    store.trim()

    assert list(store.entries(KEY))


# Who


def write_many(folder, number):
    store = Store(Path(folder), most=200_000)
    for turn in range(30):
        store.keep(KEY, {"turn": turn % 5}, answer(number))
        for entry in store.entries(KEY):
            assert entry.answer in (answer(0), answer(1), answer(2))
        store.trim()


def test_several_processes_write_read_and_trim_at_once(tmp_path):
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=write_many, args=(str(tmp_path), number)) for number in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)

    assert [process.exitcode for process in processes] == [0, 0, 0]
    store = Store(tmp_path)
    assert len(list(store.entries(KEY))) == 5
    assert not [path for path in files(store) if path.suffix != ".estimate"]


def test_an_unfinished_file_of_a_process_that_died_counts_and_goes(tmp_path):
    store = Store(tmp_path, most=1000)
    store.keep(KEY, {}, {"outcome": "traced"})
    handle, path = tempfile.mkstemp(prefix=".", dir=files(store)[0].parent)
    os.write(handle, b"x" * 2000)
    os.close(handle)
    os.utime(path, (1000, 1000))

    store.trim()

    assert not os.path.exists(path)
    assert list(store.entries(KEY))
