"""A figure is not used again once what the test read has changed, whichever way it was read."""

import json
import os
import subprocess
import sys
import textwrap

import pytest

from pytest_membudget.cache.paths import Names
from pytest_membudget.cache.states import CurrentStates, NotCacheable, States, dependencies_of, first_change

PROGRAM = """
import json, os, sys
from pytest_membudget.cache.observer import Observer

observer = Observer({scratch!r})
observer.install()
sys.path.insert(0, os.getcwd())
import glob, importlib.util, pathlib, shutil, socket, sqlite3, tempfile
from pathlib import Path

tmp_path = Path({scratch!r})
observer.begin()
{body}
print("SEEN" + json.dumps(observer.seen()))
"""
FILES = {
    "data.txt": "1",
    "more.txt": "2",
    "parts/a.txt": "1",
    "parts/b.txt": "22",
    "large/a.txt": "333",
    "quick.py": "",
    "inner/quick.py": "",
}


class Project:
    """A folder, and bodies whose process is observed in it."""

    def __init__(self, folder, scratch):
        self.folder, self._scratch = folder, scratch
        self._environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}  # as users run Python
        scratch.mkdir()
        for name, text in FILES.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        (folder / "link").symlink_to("parts")
        (folder / "chosen.txt").symlink_to("data.txt")

    def world(self):
        return CurrentStates(Names(str(self.folder)), States(), self._environment)

    def kept(self, body):
        """What the estimate of ``body`` depends on. Raises ``NotCacheable``."""
        program = PROGRAM.format(scratch=str(self._scratch), body=textwrap.dedent(body))
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return dependencies_of(json.loads(done.stdout.partition("SEEN")[2]), self.world())

    def change(self, statement):
        """Run ``statement`` in the project, unobserved."""
        program = f"import os, shutil; from pathlib import Path\n{statement}"
        subprocess.run([sys.executable, "-c", program], cwd=self.folder, check=True)

    def changed(self, kept):
        return first_change(kept, self.world())


@pytest.fixture
def project(tmp_path):
    (tmp_path / "project").mkdir()
    return Project(tmp_path / "project", tmp_path / "scratch")


RELINK = "os.remove('link'); os.symlink('large', 'link')"
RECHOOSE = "os.remove('chosen.txt'); os.symlink('more.txt', 'chosen.txt')"
REPLACE = "os.rename('parts', 'old'); os.symlink('large', 'parts')"
GROW = "Path('parts/a.txt').write_text('4444')"
TOUCH = "os.utime('parts/a.txt', (1, 1))"
CHMOD = "os.chmod('parts/a.txt', 0o600)"
EDIT = "Path('data.txt').write_text('2')"
HEADER = "pytest_membudget.devices.stand_in.saving.safetensors_header"


@pytest.mark.parametrize(
    ("body", "change"),
    [
        # links that are resolved
        ("Path('link').resolve()", RELINK),
        ("os.path.realpath('link/a.txt')", RELINK),
        ("os.readlink('link')", RELINK),
        ("os.readlink(b'chosen.txt')", RECHOOSE),
        ("Path('parts').resolve()", REPLACE),
        ("os.path.islink('parts')", REPLACE),
        ("Path('parts').is_symlink()", REPLACE),
        ("os.lstat('chosen.txt').st_mtime_ns", RECHOOSE),
        ("os.stat('chosen.txt', follow_symlinks=False).st_size", RECHOOSE),
        ("os.listdir('link')", "os.remove('link'); os.symlink('parts/..', 'link')"),
        ("open('link/../data.txt').read()", RELINK + "; os.mkdir('a'); shutil.move('large', 'a');"
         "os.remove('link'); os.symlink('a/large', 'link'); Path('a/data.txt').write_text('5')"),
        # sizes, times and modes of a folder's entries
        ("[entry.stat().st_size for entry in os.scandir('parts')]", GROW),
        ("[entry.stat().st_mtime for entry in os.scandir('parts')]", TOUCH),
        ("[entry.stat().st_mode for entry in os.scandir('parts')]", CHMOD),
        ("exec(compile('[e.stat() for e in os.scandir(\"parts\")]', '<made>', 'exec'))", TOUCH),
        ("[entry.is_dir() for entry in os.scandir('parts')]",
         "os.remove('parts/a.txt'); os.mkdir('parts/a.txt')"),
        ("[path.is_dir() for path in Path('parts').glob('*')]",
         "os.remove('parts/a.txt'); os.mkdir('parts/a.txt')"),
        ("max(glob.glob('parts/*'), key=os.path.getmtime)", TOUCH),
        ("max(Path('parts').glob('*'), key=lambda path: path.stat().st_mtime)", TOUCH),
        ("max(Path('parts').iterdir(), key=os.path.getsize)", GROW),
        ("list(os.walk('parts'))", "Path('parts/c.txt').touch()"),
        ("os.stat('parts/a.txt').st_mode", CHMOD),
        ("os.access('parts/a.txt', os.X_OK)", CHMOD),
        ("os.stat(os.open('parts/a.txt', os.O_RDONLY)).st_mtime", TOUCH),
        ("file = open('parts/a.txt'); os.fstat(file.fileno()).st_mtime", TOUCH),
        ("shutil.copy('parts/a.txt', tmp_path); (tmp_path / 'a.txt').stat().st_mode", CHMOD),
        ("shutil.copy2('parts/a.txt', tmp_path); os.path.getmtime(tmp_path / 'a.txt')", TOUCH),
        ("os.path.samefile('chosen.txt', 'data.txt')", RECHOOSE),
        # from an open folder
        ("os.read(os.open('a.txt', os.O_RDONLY, dir_fd=os.open('parts', os.O_RDONLY)), 1)", GROW),
        ("os.stat('a.txt', dir_fd=os.open('parts', os.O_RDONLY)).st_size", GROW),
        ("os.listdir(os.open('parts', os.O_RDONLY))", "Path('parts/c.txt').touch()"),
        ("list(os.scandir(os.open('parts', os.O_RDONLY)))", "Path('parts/c.txt').touch()"),
        ("list(os.fwalk('parts'))", "Path('parts/c.txt').touch()"),
        ("open('a.txt', opener=lambda path, flags: os.open(path, flags,"
         " dir_fd=os.open('parts', os.O_RDONLY))).read()", GROW),
        # what the body makes leads to what it has not made
        ("os.symlink(Path('parts').absolute(), tmp_path / 'm'); open(tmp_path / 'm/a.txt').read()", GROW),
        ("os.symlink('parts', 'made'); open('made/a.txt').read(); os.remove('made')", GROW),
        ("os.symlink('parts', 'made'); os.listdir('made'); os.remove('made')", "Path('parts/c.txt').touch()"),
        ("os.link('parts/a.txt', tmp_path / 'made'); (tmp_path / 'made').read_text()", GROW),
        ("shutil.copytree('parts', tmp_path / 'made'); (tmp_path / 'made/a.txt').read_text()", GROW),
        # what could be imported
        ("importlib.util.find_spec('quick')", "os.remove('quick.py')"),
        ("importlib.util.find_spec('inner.quick')", "os.remove('inner/quick.py')"),
        ("importlib.util.find_spec('slow')", "Path('slow.py').touch()"),
        ("import quick", "Path('quick').mkdir(); Path('quick/__init__.py').touch()"),
        ("import inner.quick", "Path('inner.py').touch()"),
        ("import tabulate", "Path('tabulate.py').touch()"),
        ("sys.path.insert(0, os.path.abspath('parts')); import quick", "Path('parts/quick.py').touch()"),
        ("importlib.import_module('inner')", "Path('inner/__init__.py').touch()"),
        ("importlib.machinery.PathFinder.find_spec('quick')", "os.remove('quick.py')"),
        # whether something can be made or removed
        ("Path('parts').mkdir(exist_ok=True)", "shutil.rmtree('parts')"),
        ("os.makedirs('parts', exist_ok=True); open('parts/a.txt').read()", GROW),
        ("try: open('data.txt', 'x')\nexcept FileExistsError: pass", "os.remove('data.txt')"),
        ("try: os.mkdir('data.txt')\nexcept FileExistsError: pass", "os.remove('data.txt')"),
        ("try: os.remove('none.txt')\nexcept FileNotFoundError: pass", "Path('none.txt').touch()"),
        ("os.mkdir('made'); os.rmdir('made')", "os.mkdir('made')"),
        # as ever
        ("open('data.txt').read()", EDIT),
        ("open('parts/../data.txt').read()", EDIT),
        ("open(b'data.txt', 'rb').read()", EDIT),
        ("open('data.txt', 'r+').read()", EDIT),
        ("import io; io.FileIO('data.txt').read()", EDIT),
        ("import threading; t = threading.Thread(target=open, args=['data.txt']); t.start(); t.join()", EDIT),
        ("exec(compile(\"open('data.txt').read()\", '<made>', 'exec'))", EDIT),
        # safetensors opens it itself, which nobody sees
        (f"from {HEADER} import unknown_names; unknown_names(Path('data.txt'))", EDIT),
        ("import pkgutil; list(pkgutil.iter_modules(['parts']))", "Path('parts/c.py').touch()"),
        ("try: open('none.txt')\nexcept OSError: pass", "Path('none.txt').touch()"),
        ("os.path.exists('none.txt')", "Path('none.txt').touch()"),
        ("os.chdir('parts'); open('a.txt').read()", GROW),
    ],
)  # fmt: skip
def test_a_change_of_what_was_read_is_seen(project, body, change):
    kept = project.kept(body)
    assert project.changed(kept) is None

    project.change(change)

    assert project.changed(kept) is not None


@pytest.mark.parametrize("body", ["os.environb[b'HOME']", "os.getenvb(b'SIZE')", "dict(os.environb)"])
def test_a_variable_that_is_read_as_bytes_is_seen(project, body):
    kept = project.kept(body)

    assert {"HOME", "SIZE"} & set(kept["variables"])


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("sqlite3.connect('file:data.db?mode=memory', uri=True)", "sqlite3.connect"),
        ("sqlite3.connect(':memory:').execute('attach database ? as other', ['data.db'])", "sqlite3.connect"),
        ("import multiprocessing\nmultiprocessing.get_context('spawn').Process().start()", "multiprocessing"),
        ("sys.audit('made.up')", "made.up"),
        ("import subprocess; subprocess.run(['true'])", "subprocess.Popen"),
        ("os.system('true')", "os.system"),
        ("os.waitpid(os.posix_spawn('/bin/true', ['true'], {}), 0)", "os.posix_spawn"),
        ("pid = os.fork()\nif pid == 0:\n    os._exit(0)", "os.fork"),
        ("socket.gethostbyname('localhost')", "socket.gethostbyname"),
        ("open('data.txt', 'a').write('1')", "data.txt was changed while the test ran"),
        ("open('data.txt', 'r+').write('2')", "data.txt was changed while the test ran"),
        ("os.truncate('data.txt', 0)", "data.txt was changed while the test ran"),
        ("os.remove('data.txt')", "data.txt was changed while the test ran"),
        ("os.rename('data.txt', 'other.txt'); open('other.txt').read()", "os.rename"),
        ("os.rename('parts', 'other'); open('other/a.txt').read(); os.rename('other', 'parts')", "os.rename"),
        ("sys.stdin.close(); input()" + " if 0 else sys.audit('builtins.input')", "builtins.input"),
        ("os.mkdir('made')", "made was changed while the test ran"),
        ("open('made', 'x')", "made was changed while the test ran"),
        ("os.mkfifo('pipe'); os.open('pipe', os.O_RDONLY | os.O_NONBLOCK)", "pipe is no regular file"),
        ("os.getxattr('data.txt', 'user.size')" + " if 0 else os.listxattr('data.txt')", "os.listxattr"),
        ("socket.create_server(('localhost', 0))", "socket."),
    ],
)
def test_what_cannot_be_followed_is_not_kept(project, body, why):
    with pytest.raises(NotCacheable) as refused:
        project.kept(body)

    assert why in str(refused.value)


@pytest.mark.parametrize(
    "body",
    [
        "(tmp_path / 'a.txt').write_text('1'); (tmp_path / 'a.txt').stat(); list(os.scandir(tmp_path))",
        "open('a', 'w').write('1'); os.replace('a', 'b'); open('b').read(); os.remove('b')",
        "os.mkdir('made'); open('made/a', 'w').close(); list(os.scandir('made')); shutil.rmtree('made')",
        "open('out.txt', 'w').write('1'); open('out.txt', 'a').write('1'); open('out.txt').read()",
        "with tempfile.TemporaryDirectory() as folder: open(os.path.join(folder, 'a'), 'x').close()",
        "with tempfile.NamedTemporaryFile() as file: os.stat(file.name)",
        "tempfile.mkstemp(); tempfile.TemporaryFile().write(b'1')",
        "shutil.copytree('parts', tmp_path / 'made'); shutil.rmtree(tmp_path / 'made')",
        "os.path.exists('data.txt'), Path('parts').is_dir(), shutil.which('sh')",
        "import inspect, email, unittest; inspect.getsource(email)",
        "import threading; thread = threading.Thread(target=list); thread.start(); thread.join()",
        "os.fstat(0); os.pipe(); os.path.exists('/proc/self/fd/99')",
        "try: os.fstat(99)\nexcept OSError: pass",
        "os.chmod(tmp_path, 0o700); os.utime(tmp_path); os.putenv('A', '1')",
    ],
)
def test_what_changes_nothing_is_kept(project, body):
    kept = project.kept(body)

    project.change("Path('README.md').touch()")
    project.change("os.utime('data.txt', (1, 1))")

    assert project.changed(kept) is None


BINDS = """
import socket
listener = socket.socket({family})
listener.bind(({host!r}, {port}))
{after}
"""


@pytest.mark.parametrize(
    ("port", "after", "is_kept"),
    [(0, "listener.close()", True), (0, "", False), (29511, "listener.close()", False)],
)
def test_a_module_may_bind_a_socket_to_any_port_and_close_it(project, port, after, is_kept):
    """``urllib3`` does so as it is imported, to see whether there is IPv6; here it is no installed one."""
    text = BINDS.format(family="", host="127.0.0.1", port=port, after=after)
    (project.folder / "connection.py").write_text(text)

    if is_kept:
        project.kept("import connection")
        return
    with pytest.raises(NotCacheable, match=r"socket\.bind"):
        project.kept("import connection")


def test_another_checkout_that_a_link_leads_to_is_another(tmp_path):
    for name in ("first", "second"):
        (tmp_path / "real" / name).mkdir(parents=True)
        (tmp_path / name).symlink_to(f"real/{name}")
    project = Project(tmp_path / "first", tmp_path / "scratch")
    kept = project.kept(f"open(os.path.realpath('{project.folder}/data.txt')).read()")

    other = CurrentStates(Names(str(tmp_path / "second")), States(), {})
    (tmp_path / "second" / "data.txt").write_text("1")

    assert project.changed(kept) is None
    assert first_change(kept, other) is not None
