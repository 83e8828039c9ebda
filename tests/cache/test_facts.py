"""What all estimates of a session depend on: the same for the same, another for anything that may matter."""

import os
from types import SimpleNamespace

import pytest

from pytest_membudget.cache import environment as environment_module
from pytest_membudget.cache.dependencies import Unkeepable, World, dependencies_of
from pytest_membudget.cache.environment import head_of_base, listed_variables, variables
from pytest_membudget.cache.facts import (
    counted_options,
    distributions,
    edited_files,
    package_digest,
    torch_facts,
)
from pytest_membudget.cache.files import MOST_READ_BYTES, Files
from pytest_membudget.cache.imports import Imports
from pytest_membudget.cache.reach import Names
from pytest_membudget.comparison.foreign_imports import VARIABLE

NAMES = Names("/project")


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
def test_what_is_installed_is_told_by_its_metadata(write, tmp_path, name, text):
    write("one-1.dist-info/METADATA", "Version: 1")
    write("one-1.dist-info/RECORD", "one.py,sha256=1,1")
    before = distributions([str(tmp_path)], NAMES)
    assert distributions([str(tmp_path)], NAMES) == before

    write(name, text)
    assert distributions([str(tmp_path)], NAMES) != before


def test_what_is_installed_in_a_checkout_is_the_same_in_another(write, tmp_path):
    for checkout in ("a", "b"):
        write(f"{checkout}/lib/one-1.dist-info/METADATA", "Version: 1")

    first, second = (
        distributions([str(tmp_path / name / "lib")], Names(str(tmp_path / name))) for name in "ab"
    )
    assert first == second


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


def test_this_plugin_is_told_by_all_that_is_in_it(write, tmp_path):
    write("plugin/a.py", "1")
    write("plugin/inner/b.yaml", "1")
    before = package_digest(str(tmp_path / "plugin"), Files())
    write("plugin/__pycache__/a.cpython-311.pyc", "1")
    assert package_digest(str(tmp_path / "plugin"), Files()) == before

    write("plugin/inner/b.yaml", "22")
    changed = package_digest(str(tmp_path / "plugin"), Files())
    write("plugin/c.py", "1")
    assert len({before, changed, package_digest(str(tmp_path / "plugin"), Files())}) == 3


def test_torch_is_told_by_its_place_and_its_version_file(write, tmp_path, monkeypatch):
    write("torch/__init__.py")
    write("torch/version.py", "git_version = 'a'")
    monkeypatch.syspath_prepend(str(tmp_path))
    place, version = torch_facts(Files())
    assert place == str(tmp_path / "torch" / "__init__.py")

    write("torch/version.py", "git_version = 'bb'")
    assert torch_facts(Files())[1] != version


def test_options_that_choose_or_report_do_not_count():
    options = {"verbose": 1, "keyword": "x", "numprocesses": 2, "membudget_report": "x", "my_size": 1}

    assert counted_options(options) == {"my_size": 1}
    assert counted_options({"plugins": ["a", "no:terminal"]}) == {"plugins": ["a"]}


# Variables


@pytest.mark.parametrize(
    "name",
    ["PYTORCH_ALLOC_CONF", "CUDA_VISIBLE_DEVICES", "HF_HOME", "PYTHONPATH", "MEMBUDGET_OWN_GPUS", "RANK"],
)
def test_variables_of_libraries_count_whoever_reads_them(name):
    first, second = (listed_variables({name: value, "OTHER": value}, NAMES) for value in "12")

    assert list(first) == [name]
    assert first != second


@pytest.mark.parametrize("name", ["MEMBUDGET_CACHE_DIR", "MEMBUDGET_FOREIGN_IMPORTS", "OTHER"])
def test_others_do_not(name):
    assert listed_variables({name: "1"}, NAMES) == {}


def test_a_value_is_not_kept_and_one_in_the_checkout_is_the_same_in_another():
    found = variables({"TOKEN": "secret", "DATA": "/project/data"}, ["TOKEN", "DATA", "UNSET"], NAMES)

    assert "secret" not in str(found)
    assert found["UNSET"] is None
    assert found["DATA"] == variables({"DATA": "/other/data"}, ["DATA"], Names("/other"))["DATA"]


def test_the_base_s_head_is_where_the_comparison_says():
    assert environment_module._SAYS_NOTHING[-1] == VARIABLE
    assert head_of_base({VARIABLE: '{"head": "/there", "folder": "/tmp/x"}'}) == "/there"
    assert head_of_base({}) is None


# Files


def test_a_state_is_of_the_content(write):
    path = write("a.txt", "1", at=1000)
    files = Files()
    first = files.state(str(path))
    write("a.txt", "2", at=1000)

    assert files.state(str(path)) != first
    write("a.txt", "1", at=2000)
    assert files.state(str(path)) == first == Files().state(str(path))


def test_large_files_are_told_by_their_times(write):
    path = write("large")
    os.truncate(path, MOST_READ_BYTES + 1)
    first = Files().state(str(path))
    os.utime(path, (1, 1))

    assert Files().state(str(path)) != first


# What was seen, as it is kept


def seen(**more):
    kinds = {"files": {}, "absent": [], "folders": [], "listings": {}, "modules": {}, "outside": []}
    return {**kinds, "missing": [], "variables": [], "paths": [], "trouble": "", **more}


def world(**more):
    return World(NAMES, Files(), Imports(), {}, (), **more)


def test_what_changed_while_the_test_ran_is_not_kept(write):
    path = str(write("a.txt", "1"))
    signature = list(Files().signature(path))
    dependencies_of(seen(files={path: signature}), world())

    write("a.txt", "2")
    with pytest.raises(Unkeepable, match=r"a\.txt was changed while the test ran"):
        dependencies_of(seen(files={path: signature}), world())


def test_a_base_that_used_its_head_is_not_kept(write, tmp_path):
    path = str(write("head/a.py", "1"))
    found = seen(files={path: list(Files().signature(path))})
    dependencies_of(found, world())

    with pytest.raises(Unkeepable, match="base"):
        dependencies_of(found, world(head=str(tmp_path / "head")))


def test_trouble_is_not_kept():
    with pytest.raises(Unkeepable, match=r"os\.system"):
        dependencies_of(seen(trouble="os.system"), world())


def test_a_module_that_is_found_here_and_was_not_there_is_not_kept():
    with pytest.raises(Unkeepable, match="a module"):
        dependencies_of(seen(missing=["json"]), world())


def test_a_module_found_by_its_own_ways_is_told_by_its_file_alone(write):
    path = str(write("by_path.py", "1"))
    found = seen(files={path: list(Files().signature(path))}, modules={"by_path": path})

    kept = dependencies_of(found, world())
    assert kept["modules"] == {}
    assert list(kept["states"]) == [path]


def test_namespaces_and_names_without_a_module(monkeypatch, write, tmp_path):
    write("spaces/part.py")
    write("plain.py")
    monkeypatch.syspath_prepend(str(tmp_path))
    imports = Imports()

    assert imports.origin("spaces") == f"namespace:{tmp_path / 'spaces'}"
    assert imports.origin("spaces.part") == str(tmp_path / "spaces" / "part.py")
    assert imports.origin("plain.inner") is None
    assert not imports.is_found("no_such_module.inner")
    assert imports.is_found("sys")
    assert imports.origin("sys") is None


def test_plain_values_name_the_root():
    value = {
        "a": ["/project/x", 1, None, True],
        "b": ("/project",),
        "c": {"/project/y"},
        "d": SimpleNamespace,
    }

    assert NAMES.plain(value) == {
        "a": ["{root}/x", 1, None, True],
        "b": ["{root}"],
        "c": ["'{root}/y'"],
        "d": "<class 'types.SimpleNamespace'>",
    }
    assert NAMES.path(NAMES.name("/project/x")) == "/project/x"
    assert NAMES.name("/projects/x") == "/projects/x"


def test_what_lies_beside_a_folder_above_the_root_has_two_names():
    names = Names("/a/b/project")

    assert names.names("/a/b/project") == ["{root}"]
    assert names.names("/a/b/project/x") == ["{root}/x"]
    assert names.names("/a/b/.env") == ["/a/b/.env", "{root}/../.env"]
    assert names.names("/a/.env") == ["/a/.env", "{root}/../../.env"]
    assert names.names("/c/d/.env") == ["/c/d/.env"]
    assert [names.path(name) for name in names.names("/a/.env")] == ["/a/.env", "/a/.env"]
    assert Names("/c/d/project").path("{root}/../../.env") == "/c/.env"
    above = {path: names.is_above(path) for path in ("/a", "/a/b/project", "/a/c", "/")}
    assert above == {"/a": True, "/a/b/project": False, "/a/c": False, "/": True}
