"""Entries with ``script:`` as they are written: the command line, where it runs, and mistakes."""

import json
import sys

import pytest

from pytest_membudget.budgets.marked_test import Program
from pytest_membudget.errors import UsageMistake
from pytest_membudget.scenarios.scripts import read_script
from tests.json_schemas import scenario_schema

SETTINGS = {"gpu": None, "metric": "allocated"}


@pytest.fixture
def programs(folder):
    """``programs(text)``: the program of each entry by its id, or its mistakes; train.py is there."""
    (folder.path / "train.py").touch()
    (folder.path / "jobs").mkdir()
    (folder.path / "jobs" / "train.py").touch()

    def read(text):
        found = {}
        for name, point in folder.points(text).items():
            try:
                found[name], _ = read_script(point, folder.path, SETTINGS)
            except UsageMistake as error:
                found[name] = str(error).replace(str(folder.path), "HERE")
        return found

    return read


def one(fields):
    return f"budgets:\n  - name: one\n    gib: 4\n    {fields}\n"


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("train.py --batch_size=12", ("train.py", "--batch_size=12")),
        ("train.py --name 'two words' a\\ b", ("train.py", "--name", "two words", "a b")),
        ("-m package.train --steps 2", ("-m", "package.train", "--steps", "2")),
        ("./jobs/train.py", ("./jobs/train.py",)),
    ],
)
def test_a_command_line_is_split_as_a_shell_does(programs, folder, written, words):
    assert programs(one(f"script: {written}")) == {"one": Program(words, str(folder.path))}


def test_a_command_that_a_package_installed_is_the_script_that_pip_wrote(programs, folder, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(folder.path / "bin/python"))
    command = folder.path / "bin/yolo"
    command.parent.mkdir()
    command.write_text("#!python")

    assert programs(one("script: yolo train"))["one"].words == (str(command), "train")


def test_folder_variables_and_outputs(programs, folder):
    entry = "script: train.py\n    cwd: jobs\n    environment: {B: 2, A: 'on'}\n    outputs: [runs, ../logs/]"

    jobs = folder.path / "jobs"
    outputs = (str(jobs / "runs"), str(folder.path / "logs"))
    assert programs(one(entry))["one"] == Program(
        ("train.py",), str(jobs), (("A", "on"), ("B", "2")), outputs
    )


@pytest.mark.parametrize(
    ("entry", "mistake"),
    [
        ("script: trian.py", "there is no HERE/trian.py; write the script's path from HERE, or set cwd"),
        ("script: train.py\n    cwd: job", "cwd: job: there is no folder HERE/job; write its path from HERE"),
        ("script: python train.py", "write the script without python, as in script: train.py"),
        ("script: torchrun train.py", "--batch_size=12; how many ranks there are is gpus:"),
        ("script: train.py 'a", "No closing quotation; write it as for a shell"),
        ("script: [train.py]", "write a script and its arguments, as in script: train.py"),
        ("script: -m", "write a module, as in script: -m package.train"),
        ("script: train.py\n    env: {A: b}", "there is no field env; "),
        ("script: train.py\n    environment: {A: yes}", "A is no text; write its value in quotes"),
        ("script: train.py\n    environment: A=b", "write a table of variables"),
        ("script: train.py\n    outputs: 1", "outputs: 1: "),
        ("script: train.py\n    model: {config: a.json}", "there is no field model"),
        ("script: train.py\n    gibb: 3", "there is no field gibb; did you mean gib?"),
        ("script: train.py\n    components: {cached: 1}", "cached is no part of allocated memory"),
        ("script: train.py\n    grid: {gib: [1], sequence: [2]}", "grid: there is no field sequence"),
    ],
)  # fmt: skip
def test_a_mistake_says_where_it_is_and_what_to_write(programs, entry, mistake):
    found = programs(one(entry))["one"]

    assert found.startswith("f.membudget.yaml:")
    assert mistake in found


def test_scripts_and_scenarios_share_a_file_and_its_defaults(programs, folder):
    text = """
        defaults: {gpus: 2, cwd: jobs, sequence: 128, model: {shape: {hidden: 64}}}
        budgets:
          - {name: script, gib: 1, script: train.py}
          - {name: scenario, gib: 1}
        """
    points = folder.points(text)

    assert set(points["script"].fields) == {"name", "gib", "gpus", "cwd", "script"}
    assert set(points["scenario"].fields) == {"name", "gib", "gpus", "sequence", "model"}
    assert read_script(points["script"], folder.path, SETTINGS)[1].gpus == 2


def test_a_grid_of_command_lines(programs):
    grid = "grid:\n      script, gib: [[train.py --b=1, 1], [train.py --b=2, 2]]"

    assert list(programs(one(grid))) == [
        "one[script=train.py --b=1-gib=1]",
        "one[script=train.py --b=2-gib=2]",
    ]


def test_a_script_cannot_be_a_default(folder):
    with pytest.raises(UsageMistake, match="script cannot have a default"):
        folder.entries("defaults: {script: train.py}\nbudgets: [{name: one}]")


def test_editors_know_the_fields_of_both():
    items = scenario_schema()["properties"]["budgets"]["items"]

    assert items["if"] == {"required": ["script"]}
    assert {"script", "cwd", "environment", "gib", "gpus", "grid"} <= set(items["then"]["properties"])
    assert "model" not in items["then"]["properties"]
    assert "script" not in items["else"]["properties"]
    assert "script.gpus" in json.dumps(items["then"])
