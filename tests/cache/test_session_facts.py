"""What all estimates of a session depend on: the same for the same, another for anything that may matter."""

import os
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest

from pytest_membudget.budgets.budget import Budget
from pytest_membudget.budgets.marked_test import MarkedTest
from pytest_membudget.budgets.settings import Settings
from pytest_membudget.cache import session_facts
from pytest_membudget.cache.estimates import IGNORED, counted_variables, head_of_base
from pytest_membudget.cache.session_facts import counted_options, distributions, edited_files, installation
from pytest_membudget.cache.states import States
from pytest_membudget.comparison.base.foreign_imports import VARIABLE
from pytest_membudget.comparison.base.invocation import Invocation
from pytest_membudget.devices.choice import StandIn, find_stand_in
from pytest_membudget.devices.torch_build.build import TorchBuild
from pytest_membudget.gate import estimators
from pytest_membudget.hardware.gpus import CUSTOM_GPUS
from pytest_membudget.results.answer import Request
from pytest_membudget.user_input.nodes import TOML, Node
from pytest_membudget.worker.protocol import STAND_IN

STARTED = Invocation([], "/project", "/project")


@pytest.fixture
def write(tmp_path):
    def write(name, text="", at=None):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if at is not None:
            os.utime(path, (at, at))
        return path

    return write


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("one-1.dist-info/METADATA", "Version: 2"),
        ("one-1.dist-info/RECORD", "one.py,sha256=2,1"),
        ("one-1.dist-info/direct_url.json", "{}"),
        ("one-2.dist-info/METADATA", "Version: 2"),
        ("one.egg-info/PKG-INFO", "Version: 1"),
        ("one.egg-info", "Version: 1"),
        ("one.pth", "/somewhere"),
        ("one.egg-link", "/somewhere"),
    ],
)
def test_what_is_installed_is_identified_by_its_metadata(write, tmp_path, name, text):
    write("one-1.dist-info/METADATA", "Version: 1")
    write("one-1.dist-info/RECORD", "one.py,sha256=1,1")

    def found():
        return {file: States().of("state", file) for file in distributions([str(tmp_path)])}

    before = found()
    assert found() == before

    write(name, text)
    assert found() != before


def test_code_that_was_edited_where_it_is_installed_is_found(write, tmp_path):
    write("one/__init__.py", at=1000)
    edited = write("one/inner/part.py", at=1003)
    write("one/data.txt", at=1003)
    write("one-1.dist-info/RECORD", at=1001)
    write("two-1.dist-info/RECORD", at=1002)

    assert edited_files([str(tmp_path)]) == [str(edited)]


def test_a_folder_without_installations_has_no_edited_code(write, tmp_path):
    write("one/__init__.py")

    assert edited_files([str(tmp_path), "/no/such/folder"]) == []


def test_this_plugin_is_identified_by_all_that_is_in_it(write, tmp_path, monkeypatch):
    monkeypatch.setattr(session_facts, "PACKAGE", str(tmp_path / "plugin"))
    found = []
    for name in ("a.py", "inner/b.yaml", "__pycache__/a.cpython-311.pyc", "c.py"):
        write(f"plugin/{name}", name)
        found.append(installation([], States())["files"])
    write("plugin/inner/b.yaml", "another")
    found.append(installation([], States())["files"])

    assert found[1] == found[2]
    assert len({str(one) for one in found}) == 4


def test_the_distribution_of_torch_records_the_file_with_its_commit():
    assert "torch/version.py" in map(str, metadata.files("torch"))


def test_options_that_choose_or_report_do_not_count():
    reporting = ["verbose", "keyword", "numprocesses", "membudget_report", "random_order_seed"]
    options = dict.fromkeys([*reporting, "my_size"], 1)

    assert counted_options(options, []) == {"my_size": 1}
    assert counted_options({"plugins": ["a", "no:terminal"]}, []) == {"plugins": ["a"]}
    assert counted_options({"randomly_seed": 7}, ["-x"]) == {}
    assert counted_options({"randomly_seed": 7}, ["--randomly-seed=7"]) == {"randomly_seed": 7}


# Variables


def test_all_variables_count_but_the_documented_ones():
    written = dict.fromkeys(["PYTORCH_ALLOC_CONF", "HOME", "SIZE_MIB", "LINES_PER_BATCH", "TERMINAL"], "1")
    job = dict.fromkeys(["GITHUB_SHA", "HOSTNAME", "PYTEST_XDIST_WORKER", "_", "MEMBUDGET_CACHE_DIR"], "1")

    assert counted_variables({**written, **job}) == written


def test_the_guide_lists_the_variables_that_do_not_count():
    guide = (Path(__file__).parents[2] / "docs" / "guide.md").read_text(encoding="utf-8")
    start = guide.index("Variables that do not count: ")
    listed = guide[start : guide.index(".", start)].split(": ")[1].replace("\n", " ")

    assert {name.strip(" `*") for name in listed.split(",")} == IGNORED


def test_the_base_s_head_is_where_the_comparison_says():
    assert VARIABLE in IGNORED
    assert head_of_base({VARIABLE: '{"head": "/there", "folder": "/tmp/x"}'}) == "/there"
    assert head_of_base({}) is None


# Settings


def test_workers_with_another_number_of_cards_have_other_estimates(monkeypatch, pytestconfig):
    asked = []
    monkeypatch.setattr(estimators, "cache_of", lambda *args: asked.append(args))
    bodies = estimators.choose_estimators(pytestconfig, Settings(), STARTED, None).bodies
    for gpus in (1, 2):
        bodies.expect(MarkedTest("t.py::t", "t.py::t", "t.py", "t.py", 1, Budget(gib=1, gpus=gpus)))

    version = find_stand_in().torch.version
    assert [device for *_, device, _ in asked] == [[STAND_IN, "H100-80GB", gpus, version] for gpus in (1, 2)]


def test_custom_cards_count_by_the_variable_that_has_them(monkeypatch, pytestconfig):
    """Their values have places in a file, which print otherwise in each process."""

    def key():
        settings = Settings(gpus=Node({}, "pyproject.toml", syntax=replace(TOML, scalar=lambda value: "")))
        cache = session_facts.cache_of(pytestconfig, settings, [], "/project", [], [], [])
        return cache._key(Request("t.py::t", "t.py", "A100-40GB", False, "allocated"))

    before = key()
    assert key() == before

    monkeypatch.setenv(CUSTOM_GPUS, "{}")
    assert key() != before


def test_what_workers_import_counts_and_not_what_the_session_does(write, monkeypatch, pytestconfig, tmp_path):
    """The torch of workers may lie in a folder of its own, where cuDNN is put or replaced."""
    build = TorchBuild(tmp_path, "2.13.0+cu130", cuda="13.0")
    stand_in = StandIn(tmp_path, build)
    monkeypatch.setattr(estimators, "find_stand_in", lambda: stand_in)
    caches = []
    cache_of = session_facts.cache_of
    monkeypatch.setattr(estimators, "cache_of", lambda *args: caches.append(cache_of(*args)) or caches[-1])

    def key():
        bodies = estimators.choose_estimators(pytestconfig, Settings(), STARTED, None).bodies
        bodies.expect(MarkedTest("t.py::t", "t.py::t", "t.py", "t.py", 1, Budget(gib=1)))
        return caches[-1]._key(Request("t.py::t", "t.py", "A100-40GB", False, "allocated"))

    keys = [key(), key()]
    write("nvidia_cudnn_cu13-9.20.0.48.dist-info/METADATA", "Version: 9.20.0.48")
    keys.append(key())
    write("nvidia_cudnn_cu13-9.20.0.48.dist-info/RECORD", at=1000)
    keys.append(key())
    write("torch/nn/functional.py", "edited = True")
    keys.append(key())

    assert keys[0] == keys[1]
    assert len(set(keys)) == 4
