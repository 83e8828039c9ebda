"""What a test's earlier runs have made is put away while it runs again."""

import os

import pytest

from pytest_membudget.worker.server.made_files import MadeFiles, recording


@pytest.fixture
def run(tmp_path):
    """Runs a body in a process for itself, as a worker does, with all that comes before and after."""
    files, root = MadeFiles(), tmp_path / "root"
    root.mkdir()

    def run(body, test="test"):
        log = tmp_path / "log"
        log.unlink(missing_ok=True)
        files.put_away(test)
        child = os.fork()
        if child == 0:
            os.chdir(root)
            with recording(log, {str(root)}):
                body()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        files.end(test, log)
        return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}

    run.root, run.files = root, files
    return run


def writes(name, text):
    with open(name, "w") as file:
        file.write(text)


def makes(text):
    def body():
        os.makedirs("out/in")  # raises where it is there
        writes("out/in/a", text)
        writes("b.part", text)
        os.replace("b.part", "b")
        os.symlink("b", "link")

    return body


def test_each_run_begins_as_the_first_did_and_what_that_made_stays(run):
    first = run(makes("1"))

    assert first == {"out/in/a": "1", "b": "1", "link": "1"}
    assert run.files.has_any("test")
    assert run(makes("2")) == first
    assert run(lambda: writes("a later one's", "3")) == first  # nothing of it stays
    assert run(lambda: None) == first


def test_what_was_there_and_what_other_tests_have_made_stays_where_it_is(run):
    (run.root / "mine").write_text("0")
    run(makes("1"), "other")

    run(lambda: writes("mine", "1"))

    assert not run.files.has_any("test")
    assert run(lambda: writes("seen", str(sorted(os.listdir()))))["seen"] == "['b', 'link', 'mine', 'out']"


def test_what_a_child_of_the_test_makes_is_seen_and_nothing_elsewhere(run, tmp_path):
    def forks():
        child = os.fork()
        if child == 0:
            os.mkdir("of a child")
            os._exit(0)
        os.waitpid(child, 0)
        writes(tmp_path / "elsewhere", "")
        os.mkdir("gone")
        os.rmdir("gone")

    for _ in range(2):
        run(forks)
        assert os.listdir(run.root) == ["of a child"]
    assert (tmp_path / "elsewhere").exists()
