"""YAML with the line of every key: what is taken, and what is refused with its place."""

import os
from pathlib import Path

import pytest

from pytest_membudget.errors import UsageMistake
from pytest_membudget.user_input.files import read_yaml


@pytest.fixture
def read(tmp_path):
    def read_text(text):
        path = tmp_path / "f.yaml"
        path.write_text(text, encoding="utf-8")
        return read_yaml(path, "f.yaml")

    return read_text


def refusal_of(read, text):
    with pytest.raises(UsageMistake) as refusal:
        read(text)
    return str(refusal.value)


def test_values_have_the_lines_of_their_keys(read):
    root = read("a: 1\nb:\n  c: x\n  d:\n    - 2\n    - {e: 3}\n")

    inner = root.value["b"].value
    assert root.plain == {"a": 1, "b": {"c": "x", "d": [2, {"e": 3}]}}
    assert [root.value["a"].line, root.value["b"].line, inner["c"].line, inner["d"].line] == [1, 2, 3, 4]
    assert [node.line for node in inner["d"].value] == [5, 6]
    assert inner["d"].value[1].value["e"].place == "f.yaml:6"


def test_a_value_is_shown_as_it_is_written(read):
    root = read("a: 1_000\nb: '40'\nc: off\nd: [1, {x: y}]\ne: ~\n")

    assert [node.text for node in root.value.values()] == ["1_000", "'40'", "off", "[1, {x: y}]", "~"]


def test_a_long_value_is_cut(read):
    assert len(read(f"a: [{', '.join('1' * 500)}]").value["a"].text) < 80


def test_values_that_grow_by_anchors_take_no_time(read):
    lines = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 40)]

    root = read("\n".join(lines))

    assert root.value["a39"].text.startswith("[[[[")  # 2**40 values


def test_an_anchor_gives_one_node_to_all_who_name_it_in_a_list(read):
    root = read("a: &a {x: 1}\nb:\n- *a\n- *a\n")

    first, second = root.value["b"].value
    assert first is second


def test_merge_keys_are_worked_out(read):
    root = read("a: &a {x: 1, y: 2}\nb:\n  <<: *a\n  y: 3\n")

    assert root.value["b"].plain == {"x": 1, "y": 3}


def test_an_empty_file_is_nothing(read):
    assert read("") is None
    assert read("# nothing\n") is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: [1\n", "f.yaml:2: this is no YAML: "),
        ("a: 1\n---\nb: 2\n", "f.yaml:2: this is no YAML: expected a single document"),
        ("a:\n\t- b\n", "f.yaml:2: this is no YAML: "),
        ("a: 1\nb: 2\na: 3\n", "f.yaml:3: a is there twice, in line 1 first; leave one of them out"),
        ("a: &a [*a]\n", "f.yaml:1: this value contains itself"),
        ("a:\n  1: 2\n", "f.yaml:2: 1: a key is a text; write it in quotes"),
        ("? [a]\n: b\n", "f.yaml:1: this key: a key is a text"),
        ("- 1\n- !!python/name:os.system x\n", "f.yaml:2: "),
        ("a: !mine 3\n", "f.yaml:1: !mine 3: write a value without a tag"),
        ("a: 2026-13-45\n", "f.yaml:1: 2026-13-45: "),
        ("a: \x07\n", "f.yaml"),
        ("[" * 5000, "f.yaml"),
    ],
)
def test_what_is_no_plain_yaml_is_refused_with_its_line(read, text, told):
    assert refusal_of(read, text).startswith(told)


def test_a_file_that_is_no_text_is_refused(tmp_path):
    path = tmp_path / "f.yaml"
    path.write_bytes(b"\xff\xfe\x00")

    with pytest.raises(UsageMistake, match=r"^f.yaml: the file cannot be read: "):
        read_yaml(path, "f.yaml")


def test_what_might_never_end_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "f.yaml")

    for path in (tmp_path / "f.yaml", Path("/dev/zero")):
        with pytest.raises(UsageMistake, match=r"^f.yaml: this is no regular file; write the path of a text"):
            read_yaml(path, "f.yaml")


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(UsageMistake, match=r"^f.yaml: the file cannot be read: "):
        read_yaml(tmp_path / "f.yaml", "f.yaml")
