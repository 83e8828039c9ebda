"""What a process reads is seen, whichever way it reads it; what it makes itself is no dependency."""

import json
import os
import subprocess
import sys
import textwrap

import pytest

START = """
import json, os, sys
from pytest_membudget.cache.observer import Observer

observer = Observer({scratch!r})
observer.install()
sys.path.insert(0, os.getcwd())
"""
#: The process has the package that this one has.
_SAME_PACKAGE = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
END = """
print("SEEN" + json.dumps(observer.seen()))
"""


@pytest.fixture
def seen(tmp_path):
    """``seen(before, body)``: what a process has seen by the end of ``body``, paths from its folder."""
    folder = tmp_path / "project"
    (folder / "package").mkdir(parents=True)
    (folder / "package" / "__init__.py").write_text("from . import inner\n")
    (folder / "package" / "inner.py").write_text("VALUE = 1\n")
    (folder / "reads.py").write_text("import os\n\n\ndef size():\n    return os.getenv('SIZE', 'a b')\n")
    (folder / "spaces").mkdir()
    (folder / "spaces" / "part.py").write_text("VALUE = 1\n")
    (folder / "data.txt").write_text("1")
    (folder / "parts").mkdir()
    (folder / "parts" / "a").write_text("1")

    def run(body, before="", **env):
        source = START.format(scratch=str(tmp_path / "scratch")) + textwrap.dedent(before)
        source += "\nobserver.begin()\n" + textwrap.dedent(body) + END
        (tmp_path / "main.py").write_text(source)
        done = subprocess.run(
            [sys.executable, str(tmp_path / "main.py")],
            cwd=folder,
            env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", **_SAME_PACKAGE, **env},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        text = done.stdout.partition("SEEN")[2].replace(str(folder), "@")
        return json.loads(text)

    return run


def test_modules_are_seen_with_their_files(seen):
    found = seen("import package, spaces.part")

    assert {"@/package/__init__.py", "@/package/inner.py", "@/spaces/part.py"} <= set(
        found["paths"]["content"]
    )
    modules = found["modules"]
    assert modules["@"]["package"] == "/__init__.py"
    assert modules["@/package"]["inner"] == modules["@/spaces"]["part"] == ".py"
    assert found["namespaces"]["@"]["spaces"] == "/"


def test_a_module_of_an_installation_is_seen_to_be_in_no_folder_of_the_project(seen):
    assert seen("import packaging")["modules"]["@"]["packaging"] == ""


def test_modules_that_come_from_bytecode_are_seen_by_their_sources(seen):
    seen("import package")
    found = seen("import package")

    assert {"@/package/__init__.py", "@/package/inner.py"} <= set(found["paths"]["content"])
    assert not any(path.endswith(".pyc") for path in found["paths"]["content"])


def test_modules_that_are_not_there_are_seen(seen):
    body = "import importlib.util; assert importlib.util.find_spec('no_such_module') is None"

    assert seen(body)["namespaces"]["@"]["no_such_module"] == ""


def test_what_the_user_s_own_code_does_at_import_is_trouble_too(seen):
    assert seen("", before="os.system('true')")["trouble"] == "os.system"


def test_nothing_else_is_trouble(seen):
    assert seen("import email, unittest, package; open('data.txt').read()")["trouble"] == ""


@pytest.mark.parametrize(
    "body",
    [
        "os.environ.get('SIZE')",
        "os.getenv('SIZE')",
        "'SIZE' in os.environ",
        "os.environ.setdefault('SIZE', '1')",
        "dict(os.environ)",
        "os.environ.copy()",
        "list(os.environ.items())",
        "{name: os.environ[name] for name in os.environ}",
    ],
)
def test_a_variable_that_is_read_is_seen(seen, body):
    assert "SIZE" in seen(body, SIZE="1")["variables"]


def test_a_variable_that_is_not_set_is_seen(seen):
    assert "SIZE" in seen("os.environ.get('SIZE')")["variables"]


def test_a_variable_that_nobody_reads_is_none(seen):
    assert "SIZE" not in seen("os.environ.get('OTHER')", SIZE="1")["variables"]


UNWATCHED = """
    import package, reads

    with os.environ.unwatched():
        assert type(os.environ) is os._Environ
        reads.size()
    os.environ.get("AFTERWARDS")
    """


def test_where_reads_are_not_watched_what_the_sources_name_counts_as_read(seen):
    """As for a region of torch.compile's: dynamo reads variables without calling anything of ours."""
    found = seen(UNWATCHED)["variables"]

    assert "SIZE" in found
    assert "AFTERWARDS" in found
    assert not {"a b", "VALUE"} & set(found)  # no name, and a file that reads none


def test_where_all_reads_are_watched_a_name_is_no_read(seen):
    assert "SIZE" not in seen("import reads")["variables"]


def test_a_library_that_hands_on_the_environment_reads_none_of_it(seen, tmp_path):
    # ``packaging`` is an installed library: its code runs as if it were in that file
    library = "import packaging; code = compile({!r}, packaging.__file__, 'exec'); exec(code)"
    found = seen(library.format("import os; copied = dict(os.environ); os.environ.get('OTHER')"), SIZE="1")

    assert "SIZE" not in found["variables"]
    assert "OTHER" in found["variables"]


def test_a_library_may_hand_it_on_in_a_loop_that_python_has_specialised(seen):
    """Where Python 3.12 is in such a loop differs by the loop's cache, from its second round on."""
    variables = {f"SIZE_{number}": "1" for number in range(64)}
    library = "import packaging; code = compile({!r}, packaging.__file__, 'exec'); exec(code)"
    copying = "import os\nfor _ in range(8): copied = dict((key, text) for key, text in os.environ.items())"
    found = seen(library.format(copying), **variables)

    assert not variables.keys() & set(found["variables"])


def test_the_environment_is_what_it_was(seen):
    body = """
        assert os.environ["SIZE"] == "1" and len(os.environ) == len(dict(os.environ))
        os.environ["SIZE"] = "2"
        assert os.getenv("SIZE") == "2" and os.environb[b"SIZE"] == b"2"
        del os.environ["SIZE"]
        assert "SIZE" not in os.environ
        try:
            os.environ[1]
        except TypeError:
            pass
        """
    assert seen(body, SIZE="1")["trouble"] == ""


def test_the_probes_are_what_they_were(seen):
    body = """
        assert os.stat("data.txt").st_size == 1 and os.stat in os.supports_follow_symlinks
        os.symlink("data.txt", "link")
        assert os.path.islink("link") and os.lstat("link").st_size == 8
        assert os.stat(os.open("data.txt", os.O_RDONLY)).st_size == 1
        assert os.stat("data.txt", dir_fd=os.open(".", os.O_RDONLY)).st_size == 1
        try:
            os.stat("more.txt")
        except FileNotFoundError as error:
            assert error.filename == "more.txt"
        """
    assert seen(body)["trouble"] == ""


def test_a_probe_in_a_class_or_a_pickle_is_what_a_builtin_is_there(seen):
    """Python 3.10's ``pathlib`` has ``os.stat`` as a method."""
    body = """
        import pathlib, pickle

        class Accessor:
            stat = os.stat

        assert Accessor().stat("data.txt").st_size == 1
        assert pathlib.Path("data.txt").stat().st_size == 1
        assert pickle.loads(pickle.dumps(os.stat)) is os.stat
        """
    assert seen(body)["trouble"] == ""


def test_a_module_made_of_a_text_has_no_file(seen):
    """torch's ``_remote_module_non_scriptable`` is one where it was made by a loader of its own."""
    body = """
        import sys, types

        made = sys.modules["made"] = types.ModuleType("made")
        made.__file__ = "<made>.py"
        """
    assert seen(body)["trouble"] == ""
