"""A figure is not used again once what the test read has changed, whichever way it was read."""

import pytest

from pytest_membudget.cache.states import NotCacheable, States
from tests.cache.conftest import Observed
from tests.repositories import git

RELINK = "os.remove('link'); os.symlink('large', 'link')"
RECHOOSE = "os.remove('chosen.txt'); os.symlink('more.txt', 'chosen.txt')"
REPLACE = "os.rename('parts', 'old'); os.symlink('large', 'parts')"
GROW = "Path('parts/a.txt').write_text('4444')"
TOUCH = "os.utime('parts/a.txt', (1, 1))"
CHMOD = "os.chmod('parts/a.txt', 0o600)"
EDIT = "Path('data.txt').write_text('2')"
FORK = "pid = os.fork()\nif pid == 0:\n"
JOIN = "    os._exit(0)\nos.waitpid(pid, 0)"
QUEUE = (
    "import multiprocessing\ncontext = multiprocessing.get_context('fork')\nqueue = context.Queue()\n"
    "process = context.Process(target=lambda: queue.put(open('data.txt').read()))\n"
    "process.start()\nqueue.get()\nprocess.join()"
)
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
        ("os.access('parts', os.W_OK)", "os.chmod('parts', 0o500)"),
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
        ("shutil.copytree('parts', tmp_path / 'made'); (tmp_path / 'made/a.txt').read_text()", GROW),
        # what could be imported
        ("importlib.util.find_spec('quick')", "os.remove('quick.py')"),
        ("importlib.util.find_spec('inner.quick')", "os.remove('inner/quick.py')"),
        ("importlib.util.find_spec('slow')", "Path('slow.py').touch()"),
        ("import quick", "Path('quick').mkdir(); Path('quick/__init__.py').touch()"),
        ("import inner.quick", "Path('inner.py').touch()"),
        ("sys.modules.pop('colorsys', None); import colorsys", "Path('colorsys.py').touch()"),
        ("sys.path.insert(0, os.path.abspath('parts')); import quick", "Path('parts/quick.py').touch()"),
        ("importlib.import_module('inner')", "Path('inner/__init__.py').touch()"),
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
        # past the module os
        ("import posix; posix.stat('none.txt') if 0 else posix.access('none.txt', os.F_OK)",
         "Path('none.txt').touch()"),
        ("import posix; posix.stat('parts/a.txt')", GROW),
        ("import posix; posix.readlink('link')", RELINK),
        ("import posix; os.read(posix.open('a.txt', 0, dir_fd=posix.open('parts', 0)), 1)", GROW),
        # what a test's own processes read
        (f"{FORK}    open('data.txt').read()\n{JOIN}", "Path('data.txt').write_text('3')"),
        (QUEUE, EDIT),
        (f"{FORK}    os.listdir('parts')\n{JOIN}", "Path('parts/c.txt').touch()"),
        # a library by its bare name
        ("import ctypes\ntry: ctypes.CDLL('libquick.so')\nexcept OSError: pass",
         "Path('parts/libquick.so').touch()"),
    ],
)  # fmt: skip
def test_a_change_of_what_was_read_is_seen(observed, body, change):
    kept = observed.kept(body)
    assert observed.changed(kept) is None

    observed.change(change)

    assert observed.changed(kept) is not None


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("sqlite3.connect('file:data.db?mode=memory', uri=True)", "sqlite3.connect"),
        ("sqlite3.connect(':memory:').execute('attach database ? as other', ['data.db'])", "sqlite3.connect"),
        ("import multiprocessing\nmultiprocessing.get_context('spawn').Process().start()", "multiprocessing"),
        ("sys.audit('made.up')", "made.up"),
        ("subprocess.run(['true'])", "subprocess.Popen"),
        ("os.link('parts/a.txt', tmp_path / 'made'); (tmp_path / 'made').read_text()", "os.link"),
        ("os.system('true')", "os.system"),
        ("os.waitpid(os.posix_spawn('/bin/true', ['true'], {}), 0)", "os.posix_spawn"),
        ("pid = os.fork()\nif pid == 0:\n    os.execv('/bin/true', ['true'])\nos.waitpid(pid, 0)", "os.exec"),
        (f"{FORK}    open('data.txt', 'r+').write('2')\n{JOIN}", "data.txt was changed while the test ran"),
        ("import pty\npid, _ = pty.fork()\nif pid == 0:\n    os._exit(0)", "os.forkpty"),
        ("socket.socket(socket.AF_UNIX).bind(str(tmp_path / 'server'))", "socket.bind"),
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
        (
            "os.symlink(Path('parts').absolute(), tmp_path / 'm'); open(tmp_path / 'm/a.txt').read()",
            "os.symlink",
        ),
        ("socket.create_server(('localhost', 0))", "socket."),
    ],
)
def test_what_cannot_be_followed_is_not_kept(observed, body, why):
    with pytest.raises(NotCacheable) as refused:
        observed.kept(body)

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
def test_what_changes_nothing_is_kept(observed, body):
    kept = observed.kept(body)

    observed.change("Path('README.md').touch()")
    observed.change("os.utime('data.txt', (1, 1))")

    assert observed.changed(kept) is None


def test_another_checkout_that_a_link_leads_to_is_another(tmp_path):
    for name in ("first", "second"):
        (tmp_path / "real" / name).mkdir(parents=True)
        (tmp_path / name).symlink_to(f"real/{name}")
    observed = Observed(tmp_path / "first", tmp_path / "scratch")
    kept = observed.kept(f"open(os.path.realpath('{observed.folder}/data.txt')).read()")

    (tmp_path / "second" / "data.txt").write_text("1")

    assert observed.changed(kept) is None
    assert States(str(tmp_path / "second")).first_change(kept) is not None


# Processes, and what a program writes


@pytest.mark.parametrize(
    ("command", "change"),
    [
        (["git", "rev-parse", "--short", "HEAD"], "commit"),
        (["git", "status", "--porcelain"], "write"),
        (["git", "describe", "--always", "--dirty"], "write"),
        ("git log -1 --pretty=%B", "branch"),
    ],
)
def test_an_answer_of_git_depends_on_what_git_knows(observed, command, change):
    git(observed.folder, "init", "-q", ".")
    git(observed.folder, "add", "data.txt")
    git(observed.folder, "commit", "-q", "-m", "first")
    kept = observed.kept(
        f"subprocess.run({command!r}, shell={isinstance(command, str)}, capture_output=True)"
    )
    assert observed.changed(kept) is None

    if change == "commit":
        git(observed.folder, "commit", "-q", "--allow-empty", "-m", "second")
    elif change == "write":
        observed.write("data.txt", "another")
    else:
        git(observed.folder, "checkout", "-q", "-b", "other")

    assert observed.changed(kept) == "{root}"


def test_a_program_s_version_depends_on_the_program(observed):
    tool = observed.write("tool", "#!/bin/sh\necho 1\n")
    tool.chmod(0o755)
    kept = observed.kept("subprocess.run(['./tool', '--version'])")
    assert observed.changed(kept) is None

    tool.write_text("#!/bin/sh\necho 2\n")
    assert observed.changed(kept) == "{root}/tool"


@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        ("nvcc", "'nvcc --version', shell=True"),
        ("nvcc", "'\"nvcc\" -V', shell=True"),  # OpenMMLab's runner
        ("nvidia-smi", "['nvidia-smi', '--query-gpu=name']"),  # accelerate asks it for RTX 4000 cards
    ],
)
def test_a_program_that_is_not_there_may_come(observed, program, arguments):
    observed.environment["PATH"] = f"{observed.folder}/parts"
    kept = observed.kept(f"try: subprocess.run({arguments})\nexcept OSError: pass")

    observed.write(f"parts/{program}")
    assert observed.changed(kept) == f"{{root}}/parts/{program}"


def test_what_describes_the_machine_is_kept(observed):
    observed.environment["PATH"] = f"{observed.folder}/parts:{observed.environment['PATH']}"
    observed.write("parts/lspci", "#!/bin/sh\n").chmod(0o755)
    observed.kept(
        "import platform; platform.processor(); subprocess.run(['uname', '-a']); subprocess.run(['lspci'])"
    )


@pytest.mark.parametrize(
    "command",
    [
        "['git', 'commit', '-m', 'x']",
        "['git', 'status', '--ignored']",
        "['git', '-C', 'inner', 'log']",
        "'git log | head -1', shell=True",
        "'cat $DATA', shell=True",
        "'cat \"$DATA\"', shell=True",
        "'cat \"data.txt', shell=True",
        "'cd inner', shell=True",
        "['git', 'log'], env={'PATH': os.environ['PATH'], 'GIT_DIR': 'x'}",
        "['file', '-b', 'data.txt']",
        "[sys.executable, '-c', '1']",
    ],
)
def test_a_process_whose_reads_are_unknown_is_not_kept(observed, command):
    with pytest.raises(NotCacheable, match=r"subprocess\.Popen"):
        observed.kept(f"subprocess.run({command}, capture_output=True)")


#: As Triton calls ptxas, which writes next to a temporary file.
TRITON = """
import sysconfig
exec(compile('''
def make():
    with tempfile.NamedTemporaryFile("w", suffix=".ptx", delete=False) as file:
        file.write("1")
    subprocess.run(["./ptxas", file.name, file.name + ".o"], close_fds=False, check=True)
    assert open(file.name + ".o").read() == "1" and os.remove(file.name + ".o") is None
''', sysconfig.get_path("purelib") + "/FOLDER/compiler.py", "exec"))
make()
"""


@pytest.mark.parametrize("folder", ["triton/backends/nvidia", "torch/_dynamo", "torch/_inductor"])
def test_what_a_compiler_of_kernels_starts_depends_on_the_program(observed, folder):
    observed.write("ptxas", '#!/bin/sh\ncp "$1" "$2"\n').chmod(0o755)
    kept = observed.kept(TRITON.replace("FOLDER", folder))
    assert observed.changed(kept) is None

    observed.write("ptxas", '#!/bin/sh\nexec cp "$1" "$2"\n')
    assert observed.changed(kept) == "{root}/ptxas"


def test_other_libraries_processes_are_not_compilers(observed):
    observed.write("ptxas", '#!/bin/sh\ncp "$1" "$2"\n').chmod(0o755)

    with pytest.raises(NotCacheable, match=r"subprocess\.Popen"):
        observed.kept(TRITON.replace("FOLDER", "not_triton"))


WRITES = """
folder = Path("runs") / str(len(os.listdir("runs")) if os.path.isdir("runs") else 0)
os.makedirs(folder, exist_ok=True)
(folder / "log.txt").write_text("1")
with open("runs/all.txt", "a") as file:
    file.write("1")
assert (folder / "log.txt").read_text() == "1"
"""


def test_outputs_that_are_named_keep_nothing_from_being_kept(observed):
    with pytest.raises(NotCacheable, match="runs was changed while the test ran"):
        observed.kept(WRITES)

    kept = observed.kept(WRITES, outputs=["runs"])
    observed.change("shutil.rmtree('runs')")
    assert observed.changed(kept) is None


def test_outputs_may_be_written_by_a_path_that_goes_up(observed):
    (observed.folder / "jobs").mkdir()

    observed.kept(WRITES.replace("runs", "jobs/../runs"), outputs=["runs"])


def test_what_an_earlier_run_left_in_the_outputs_counts_where_it_is_read(observed):
    observed.write("runs/checkpoint.pt", "1")
    kept = observed.kept("os.path.exists('runs') and open('runs/checkpoint.pt').read()", outputs=["runs"])

    observed.write("runs/checkpoint.pt", "2")
    assert observed.changed(kept) == "{root}/runs/checkpoint.pt"


# Who asks

CACHE = """
from _pytest.cacheprovider import Cache
cache = Cache(Path(".pytest_cache").absolute(), None, _ispytest=True)
"""


def test_pytest_s_cache_counts_where_a_test_asks_it(observed):
    kept = observed.kept("cache.get('size', 0)", before=CACHE)
    assert observed.changed(kept) is None

    observed.write(".pytest_cache/v/size", "1")
    assert observed.changed(kept) == "{root}/.pytest_cache/v/size"


def test_the_functions_are_what_they_were(observed):
    observed.kept("""
        import pickle, posix
        assert os.stat("data.txt").st_size == 1 and os.stat in os.supports_follow_symlinks
        assert os.stat("data.txt", dir_fd=os.open(".", os.O_RDONLY)).st_size == 1
        assert os.lstat("link").st_size == 5 and os.path.islink("link")
        try:
            os.stat("none.txt")
        except FileNotFoundError as error:
            assert error.filename == "none.txt"

        class Accessor:
            stat = os.stat  # as in pathlib of Python 3.10

        assert Accessor().stat("data.txt").st_size == pathlib.Path("data.txt").stat().st_size == 1
        assert pickle.loads(pickle.dumps(os.stat)) is os.stat
        """)


def test_what_the_user_s_own_code_does_before_the_test_is_trouble_too(observed):
    assert observed.seen("", before="os.system('true')")["trouble"] == "os.system"


def test_modules_that_come_from_bytecode_are_seen_by_their_sources(observed):
    observed.kept("import inner.quick")
    paths = observed.seen("import inner.quick")["paths"]

    assert f"state:{observed.folder}/inner/quick.py" in paths
    assert not any("__pycache__" in path for path in paths)
