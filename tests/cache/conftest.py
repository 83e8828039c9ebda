"""A folder of a project, and what an observer sees of code that runs in it."""

import json
import os
import sys
import textwrap
import traceback

import pytest

from pytest_membudget.cache.observer import Observer
from pytest_membudget.cache.states import States

FILES = {
    "data.txt": "1",
    "more.txt": "2",
    "parts/a.txt": "1",
    "parts/b.txt": "22",
    "large/a.txt": "333",
    "quick.py": "",
    "inner/quick.py": "",
}


class Observed:
    """A folder, and bodies whose process is observed in it: a copy of this one, for the sake of time."""

    def __init__(self, folder, scratch):
        self.folder, self.scratch = folder, scratch
        self.environment = {**os.environ, "LD_LIBRARY_PATH": str(folder / "parts")}
        scratch.mkdir()
        for name, text in FILES.items():
            self.write(name, text)
        (folder / "link").symlink_to("parts")
        (folder / "chosen.txt").symlink_to("data.txt")

    def write(self, name, text=""):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def seen(self, body, outputs=(), before=""):
        """What was seen of ``body``, where ``before`` ran before the test began."""
        written = self.scratch.with_name("seen.json")
        pid = os.fork()
        if pid == 0:
            try:
                written.write_text(self._seen(textwrap.dedent(body), outputs, textwrap.dedent(before)))
            except BaseException:
                written.write_text(json.dumps(traceback.format_exc()))
            os._exit(0)
        os.waitpid(pid, 0)
        seen = json.loads(written.read_text())
        assert isinstance(seen, dict), seen
        return seen

    def _seen(self, body, outputs, before):
        os.chdir(self.folder)
        os.environ.clear()
        os.environ.update(self.environment)
        sys.dont_write_bytecode = False  # as users run Python
        observer = Observer(str(self.scratch))
        observer.install()
        sys.path.insert(0, os.getcwd())
        names = {"__name__": "made"}
        exec("import glob, importlib.util, os, pathlib, shutil, socket, sqlite3, subprocess, sys", names)
        exec("import tempfile\nfrom pathlib import Path", names)
        names["tmp_path"] = names["Path"](self.scratch)
        exec(before, names)
        observer.begin([str(self.folder / name) for name in outputs])
        exec(body, names)
        return json.dumps(observer.seen())

    def kept(self, body, outputs=(), before=""):
        """What the estimate of ``body`` depends on. Raises ``NotCacheable``."""
        return States(str(self.folder)).dependencies_of(self.seen(body, outputs, before))

    def change(self, statement):
        """Run ``statement`` in the project, unobserved."""
        before = os.getcwd()
        os.chdir(self.folder)
        try:
            exec("import os, shutil\nfrom pathlib import Path\n" + statement, {})
        finally:
            os.chdir(before)

    def changed(self, kept):
        return States(str(self.folder)).first_change(kept)


@pytest.fixture
def observed(tmp_path):
    (tmp_path / "project").mkdir()
    return Observed(tmp_path / "project", tmp_path / "scratch")
