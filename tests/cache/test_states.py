"""Each kind of thing that an estimate depended on: found as it was, and found changed."""

import os

import pytest

from pytest_membudget.cache.states import MOST_READ_BYTES, NotCacheable, States


class Project:
    """A folder with files, the root of a session's."""

    def __init__(self, folder):
        self.folder = folder

    def write(self, name, text=""):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return str(path)

    def seen(self, *reads, trouble=""):
        """What an observer has seen: ``reads`` of kind and name."""
        paths = {
            f"{kind}:{self.folder / name}": States().of(kind, str(self.folder / name)) for kind, name in reads
        }
        return {"paths": paths, "trouble": trouble}

    def states(self, **more):
        return States(str(self.folder), **more)

    def changed(self, kept):
        return self.states().first_change(kept)


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


@pytest.mark.parametrize("name", ["quick.py", "quick/__init__.py", "quick.abi3.so"])
def test_a_module_that_was_missing_in_a_folder(project, name):
    kept = project.states().dependencies_of(project.seen(("module", "quick")))

    project.write("slow.py")
    assert project.changed(kept) is None
    project.write(name)
    assert project.changed(kept) == "{root}/quick"


def test_bytecode_in_a_folder_is_not_listed(project):
    kept = project.states().dependencies_of(project.seen(("listing", "data")))
    assert project.changed(kept) is None
    project.write("data/a.txt")
    kept = project.states().dependencies_of(project.seen(("listing", "data")))

    project.write("data/__pycache__/a.cpython-311.pyc")
    assert project.changed(kept) is None
    project.write("data/b.txt")
    assert project.changed(kept) == "{root}/data"


def test_a_state_is_of_the_content(project):
    path = project.write("a.txt", "1")
    states = States()
    first = states.of("state", path)
    project.write("a.txt", "2")

    assert states.of("state", path) != first
    project.write("a.txt", "1")
    assert states.of("state", path) == first == States().of("state", path)


def test_large_files_are_identified_by_their_times(project):
    path = project.write("large")
    os.truncate(path, MOST_READ_BYTES + 1)
    first = States().of("state", path)
    os.utime(path, (1, 1))

    assert States().of("state", path) != first


def test_what_changed_while_the_test_ran_is_not_kept(project):
    project.write("a.txt", "1")
    seen = project.seen(("state", "a.txt"))
    project.states().dependencies_of(seen)

    project.write("a.txt", "2")
    with pytest.raises(NotCacheable, match=r"^a\.txt was changed while the test ran"):
        project.states().dependencies_of(seen)
    seen = project.seen(("listing", "."))
    project.write("b.txt", "2")
    with pytest.raises(NotCacheable, match="the root folder was changed while the test ran"):
        project.states().dependencies_of(seen)


def test_a_base_that_used_its_head_is_not_kept(project):
    project.write("head/a.py", "1")
    seen = project.seen(("state", "head"), ("state", "head/none"), ("module", "head/a"))
    project.states(head=str(project.folder / "head")).dependencies_of(seen)

    seen = project.seen(("state", "head/a.py"))
    project.states().dependencies_of(seen)
    with pytest.raises(NotCacheable, match="base"):
        project.states(head=str(project.folder / "head")).dependencies_of(seen)


def test_trouble_is_not_kept(project):
    with pytest.raises(NotCacheable, match=r"os\.system"):
        project.states().dependencies_of(project.seen(trouble="os.system"))


def test_a_path_in_the_root_is_the_same_in_another(tmp_path):
    """Also where a link in it leads, and not one beside it whose name begins so."""
    roots = [tmp_path / "a", tmp_path / "elsewhere" / "b"]
    for root in roots:
        root.mkdir(parents=True)
        os.symlink(root / "data", root / "link")
    beside = tmp_path / "ab" / "data.txt"
    beside.parent.mkdir()
    beside.write_text("1")
    kept = States(str(roots[0])).dependencies_of(
        Project(roots[0]).seen(("state", "link"), ("state", "none"), ("state", beside))
    )

    assert [States(str(root)).first_change(kept) for root in roots] == [None, None]
    beside.write_text("2")
    assert [States(str(root)).first_change(kept) for root in roots] == [str(beside)] * 2
