"""Each kind of thing that an estimate depended on: found as it was, and found changed."""

import os
import sys

import pytest

from pytest_membudget.cache.dependencies import World, dependencies_of, first_change
from pytest_membudget.cache.files import Files
from pytest_membudget.cache.imports import Imports
from pytest_membudget.cache.reach import Names


class Project:
    """A folder with files, the root of a session's, and first on the import path."""

    def __init__(self, folder):
        self.folder = folder
        self.environment = {}

    def write(self, name, text=""):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return str(path)

    def world(self):
        search = (str(self.folder), *sys.path)
        return World(Names(str(self.folder)), Files(), Imports(), self.environment, search)

    def kept(self, **seen):
        kinds = {"files": {}, "absent": [], "folders": [], "listings": {}, "modules": {}, "outside": []}
        whole = {**kinds, "missing": [], "variables": [], "paths": [], "trouble": "", **seen}
        kept = dependencies_of(whole, self.world())
        assert first_change(kept, self.world()) is None
        return kept

    def changed(self, kept):
        return first_change(kept, self.world())


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    return Project(tmp_path)


def test_the_content_of_a_file(project):
    path = project.write("data.txt", "1")
    kept = project.kept(files={path: list(Files().signature(path))})

    project.write("data.txt", "2")

    assert project.changed(kept) == "{root}/data.txt"


def test_a_file_that_was_not_there(project):
    kept = project.kept(absent=[str(project.folder / "data.txt")])

    project.write("data.txt")

    assert project.changed(kept) == "{root}/data.txt"


def test_a_folder_that_was_asked_for(project):
    project.write("data/a.txt")
    kept = project.kept(folders=[str(project.folder / "data")])

    os.remove(project.folder / "data/a.txt")
    os.rmdir(project.folder / "data")

    assert project.changed(kept) == "{root}/data"


def test_the_names_in_a_folder(project):
    project.write("data/a.txt")
    folder = str(project.folder / "data")
    kept = project.kept(listings={folder: Files().listing(folder)})

    project.write("data/b.txt")

    assert project.changed(kept) == "{root}/data"


@pytest.mark.parametrize(("before", "after"), [(None, "1"), ("1", None), ("1", "2")])
def test_a_variable(project, before, after):
    def put(value):
        project.environment = {} if value is None else {"SIZE": value}

    put(before)
    kept = project.kept(variables=["SIZE"])
    put(after)

    assert project.changed(kept) == "SIZE"


def test_where_a_module_is_found(project, monkeypatch):
    path = project.write("later/quick.py")
    monkeypatch.syspath_prepend(str(project.folder / "later"))
    kept = project.kept(modules={"quick": path})

    project.write("sooner/quick.py")
    monkeypatch.syspath_prepend(str(project.folder / "sooner"))

    assert project.changed(kept) == "module quick"


def test_a_module_that_is_gone(project):
    path = project.write("quick.py")
    kept = project.kept(modules={"quick": path})

    os.remove(path)

    assert project.changed(kept) == "module quick"


def test_a_module_that_was_missing(project):
    kept = project.kept(missing=["quick"])

    project.write("quick.py")

    assert project.changed(kept) == "module quick"


def test_a_module_of_an_installation_that_another_hides(project):
    kept = project.kept(outside=["tabulate"])

    project.write("tabulate.py")

    assert project.changed(kept) == "module tabulate"


def test_what_can_be_imported_from_a_folder_that_was_put_on_the_import_path(project):
    project.write("tools/one.py")
    kept = project.kept(paths=[str(project.folder / "tools")])

    project.write("tools/two.py")

    assert project.changed(kept) == "{root}/tools"


def test_what_it_did_not_depend_on_is_no_change(project):
    path = project.write("data.txt", "1")
    kept = project.kept(files={path: list(Files().signature(path))}, variables=["SIZE"])

    project.write("other.txt", "1")
    project.environment = {"OTHER": "1"}

    assert project.changed(kept) is None
