"""Each kind of thing that an estimate depended on: found as it was, and found changed."""

import os

import pytest

from pytest_membudget.cache.paths import Names
from pytest_membudget.cache.states import (
    KINDS,
    MOST_READ_BYTES,
    CurrentStates,
    NotCacheable,
    States,
    dependencies_of,
    first_change,
)


class Project:
    """A folder with files, the root of a session's."""

    def __init__(self, folder):
        self.folder = folder

    def write(self, name, text=""):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return str(path)

    def world(self, **more):
        return CurrentStates(Names(str(self.folder)), States(), **more)

    def seen(self, *reads, trouble=""):
        """What an observer has seen: ``reads`` of kind and name."""
        paths = {kind: {} for kind in KINDS}
        for kind, name in reads:
            path = str(self.folder / name)
            paths[kind][path] = States().of(kind, path)
        return {"paths": paths, "trouble": trouble}

    def kept(self, *reads, **more):
        kept = dependencies_of(self.seen(*reads, **more), self.world())
        assert first_change(kept, self.world()) is None
        return kept

    def changed(self, kept):
        return first_change(kept, self.world())


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


@pytest.mark.parametrize(
    ("before", "kind", "name", "after", "found"),
    [
        ({"data.txt": "1"}, "content", "data.txt", {"data.txt": "2"}, "{root}/data.txt"),
        *(
            ({}, kind, "data.txt", {"data.txt": ""}, "{root}/data.txt")
            for kind in ("content", "type", "status")
        ),
        ({"data.txt": "1"}, "type", "data.txt", {"data.txt": "2"}, None),
        ({"data/a.txt": ""}, "listing", "data", {"data/b.txt": ""}, "{root}/data"),
        ({"data/a.txt": ""}, "listing", "data", {"data/__pycache__/a.cpython-311.pyc": ""}, None),
    ],
)
def test_a_path_that_was_read(project, before, kind, name, after, found):
    for path, text in before.items():
        project.write(path, text)
    kept = project.kept((kind, name))

    for path, text in after.items():
        project.write(path, text)

    assert project.changed(kept) == found


def test_the_types_in_a_folder(project):
    path = project.write("data/a.txt")
    kept = project.kept(("listing", "data"))

    os.remove(path)
    os.mkdir(path)

    assert project.changed(kept) == "{root}/data"


@pytest.mark.parametrize("name", ["quick.py", "quick/__init__.py", "quick.abi3.so"])
def test_a_module_that_was_missing_in_a_folder(project, name):
    kept = project.kept(("module", "quick"))

    project.write("slow.py")
    project.write("quick/data.txt")  # a folder without a module is none
    assert project.changed(kept) is None
    project.write(name)
    assert project.changed(kept) == "{root}/quick"


def test_a_state_is_of_the_content(project):
    path = project.write("a.txt", "1")
    states = States()
    first = states.of("content", path)
    project.write("a.txt", "2")

    assert states.of("content", path) != first
    project.write("a.txt", "1")
    assert states.of("content", path) == first == States().of("content", path)


def test_large_files_are_identified_by_their_times(project):
    path = project.write("large")
    os.truncate(path, MOST_READ_BYTES + 1)
    first = States().of("content", path)
    os.utime(path, (1, 1))

    assert States().of("content", path) != first


# What is not kept


def test_what_changed_while_the_test_ran_is_not_kept(project):
    project.write("a.txt", "1")
    seen = project.seen(("content", "a.txt"))
    dependencies_of(seen, project.world())

    project.write("a.txt", "2")
    with pytest.raises(NotCacheable, match=r"a\.txt was changed while the test ran"):
        dependencies_of(seen, project.world())


def test_a_base_that_used_its_head_is_not_kept(project):
    project.write("head/a.py", "1")
    seen = project.seen(("content", "head/a.py"))
    dependencies_of(seen, project.world())

    with pytest.raises(NotCacheable, match="base"):
        dependencies_of(seen, project.world(head=str(project.folder / "head")))


def test_trouble_is_not_kept(project):
    with pytest.raises(NotCacheable, match=r"os\.system"):
        dependencies_of(project.seen(trouble="os.system"), project.world())


# What is written


def test_a_link_in_the_checkout_is_the_same_in_another(tmp_path):
    worlds = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        os.symlink(tmp_path / name / "data", tmp_path / name / "link")
        worlds.append(CurrentStates(Names(str(tmp_path / name)), States()))
    seen = Project(tmp_path / "a").seen(("type", "link"), ("type", "none"))

    kept = dependencies_of(seen, worlds[0])

    assert [first_change(kept, world) for world in worlds] == [None, None]
