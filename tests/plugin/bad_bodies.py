"""Bodies that do to their process what bodies should not, and what comes of each."""

import sys

from tests.plugin import bodies

HEAD = """
import asyncio
import atexit
import concurrent.futures
import gc
import multiprocessing
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings

import pytest
import torch

LEAK = []


def hold(mib):
    return torch.empty(mib * 2**20, dtype=torch.uint8, device="cuda")


class Silent(Exception):
    def __str__(self):
        raise RuntimeError("no text")


def recurse():
    recurse()


"""

#: Within their budgets of 16 MiB with the 8 MiB that they hold.
HARMLESS = {
    "leaks": "LEAK.append(hold(8))",
    "after_the_leak": "assert not LEAK\nkept = hold(8)",
    "makes_a_cycle_and_no_collection": (
        "gc.disable()\nfor _ in range(2):\n    ring = []\n    ring += [ring, hold(4)]\n    del ring"
    ),
    "freezes_the_collector": "gc.freeze()\nkept = hold(8)",
    "seeds": (
        "torch.manual_seed(1)\ntorch.cuda.manual_seed_all(2)\nrandom.seed(3)\n"
        "own = torch.Generator('cuda').manual_seed(4)\n"
        "kept = torch.randn(2**21, device='cuda', generator=own)"
    ),
    "sets_the_device": "torch.set_default_device('cuda')\nkept = torch.empty(2**21)",
    "sets_the_dtype": "torch.set_default_dtype(torch.float64)\nkept = torch.empty(2**20, device='cuda')",
    "after_the_settings": (
        "assert torch.empty(1).device.type == 'cpu'\nassert torch.get_default_dtype() == torch.float32\n"
        "kept = hold(8)"
    ),
    "forks_a_pool": (
        "with multiprocessing.get_context('fork').Pool(2) as pool:\n"
        "    assert pool.map(abs, [-1, 2]) == [1, 2]\nkept = hold(8)"
    ),
    "starts_a_process": "subprocess.run([sys.executable, '-S', '-c', ''], check=True)\nkept = hold(8)",
    "leaves_a_daemon": (
        "if os.fork() == 0:\n    os.setsid()\n    time.sleep(1)\n    os._exit(0)\nkept = hold(8)"
    ),
    "allocates_in_threads": (
        "with concurrent.futures.ThreadPoolExecutor(2) as pool:\n    kept = list(pool.map(hold, [4, 4]))"
    ),
    # what asyncio.run returns has its repr made, with a signal handler's: a tensor allocates for its own
    "runs_a_loop": "kept = []\nasync def work():\n    kept.append(hold(8))\nasyncio.run(work())",
    "patches_cuda": (
        "for name in ('is_available', 'memory_allocated', 'max_memory_allocated', 'empty_cache'):\n"
        "    monkeypatch.setattr(torch.cuda, name, lambda *args: 0)\nkept = hold(8)"
    ),
    "hides_the_devices": "os.environ['CUDA_VISIBLE_DEVICES'] = ''\nkept = hold(8)",
    "chooses_a_device": (
        # torch 2.11 counts anew, and there is no card of this number
        "os.environ['CUDA_VISIBLE_DEVICES'] = '3'\nis_new = not torch.__version__.startswith('2.11.')\n"
        "assert torch.cuda.device_count() == is_new\nkept = hold(8)"
    ),
    "deletes_its_folder": "os.chdir(tmp_path)\nshutil.rmtree(tmp_path)\nkept = hold(8)",
    "deletes_all_folders": "shutil.rmtree(tmp_path.parent.parent)\nkept = hold(8)",
    "deletes_others_folders": "shutil.rmtree(tmp_path.parent.parent.parent)\nkept = hold(8)",
    "has_nowhere_for_files": "tempfile.tempdir = '/nowhere'\nkept = hold(8)",
    "closes_output": "os.close(1)\nkept = hold(8)",
    "closes_errors": "os.close(2)\nkept = hold(8)",
    "has_no_streams": "sys.stdout = sys.stderr = None\nkept = hold(8)",
    "has_no_hooks": "sys.excepthook = threading.excepthook = None\nkept = hold(8)",
    "limits_its_memory": (
        "resource.setrlimit(resource.RLIMIT_AS, (2**20, resource.RLIM_INFINITY))\nkept = hold(8)"
    ),
    "limits_its_files": "resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))\nkept = hold(8)",
    "limits_its_writing": "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\nkept = hold(8)",
    "forgets_this_package": (
        "for name in [name for name in sys.modules if name.startswith('pytest_membudget')]:\n"
        "    del sys.modules[name]\nkept = hold(8)"
    ),
    "leaves_at_exit": "atexit.register(os._exit, 77)\nkept = hold(8)",
    "warns": "warnings.warn('careful')\nkept = hold(8)",
    "prints_oddly": "print('\\u2603 \\ud800')\nkept = hold(8)",
    "reads_what_it_prints": (
        "print('one')\nos.system('echo two')\nassert capfd.readouterr().out == 'one\\ntwo\\n'\nkept = hold(8)"
    ),
    "forks": "if os.fork() == 0:\n    kept = hold(15)\nkept = hold(8)",
    "forks_and_waits": (
        "pid = os.fork()\nif pid == 0:\n    os._exit(5)\n"
        "assert os.waitpid(pid, 0)[1] == 5 << 8\nkept = hold(8)"
    ),
    "keeps_threads": "threading.Thread(target=time.sleep, args=(60,)).start()\nkept = hold(8)",
    "skips_a_subtest": "with subtests.test():\n    pytest.skip('not this')\nkept = hold(8)",
    "closes_its_output": "sys.stdout.close()\nkept = hold(8)",
    "goes_elsewhere": "os.chdir('/')\nkept = hold(8)",
    "forgets_the_environment": (
        "for name in list(os.environ):\n    if name != 'PYTEST_CURRENT_TEST':\n        del os.environ[name]\n"
        "kept = hold(8)"
    ),
    "after_it_went_elsewhere": (
        "assert os.path.exists('test_bodies.py')\nassert 'HOME' in os.environ\nkept = hold(8)"
    ),
    "changes_torch": "torch.cuda.is_available = None\nkept = torch.zeros(2**21, device='cuda')",
    "catches_signals": "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nkept = hold(8)",
    # it may have half a gigabyte more than it has now: less than what it prints
    "prints_a_gigabyte": (
        "pages = int(open('/proc/self/statm').read().split()[0])\n"
        "most = pages * resource.getpagesize() + 2**29\n"
        "resource.setrlimit(resource.RLIMIT_AS, (most, most))\n"
        "line = 'x' * (2**20 - 1)\nfor _ in range(512):\n    print(line)\n    print(line, file=sys.stderr)\n"
        "kept = hold(8)"
    ),
}

#: What their failures say, and the lines of them that have to be named, by their beginnings.
HARMFUL = {
    "is_on_the_cpu": ("kept = torch.empty(2**21)", "put the model and its inputs on device 'cuda'", ""),
    "patches_its_move": (
        "monkeypatch.setattr(torch.Tensor, 'cuda', lambda self: self)\nkept = torch.empty(2**21).cuda()",
        "put the model and its inputs on device 'cuda'",
        "",
    ),
    "recurses": ("recurse()", "RecursionError in call at test_bodies.py:", "recurse()"),
    "raises_no_text": ("raise Silent", "Silent in call at", "raise Silent"),
    "raises_no_exception": (
        "class Odd(BaseException): pass\nraise Odd('odd')",
        "Odd in call at test_bodies.py:",
        "raise Odd",
    ),
    "raises_a_book": ("raise ValueError('z' * 10**6)", "characters more)", "raise ValueError('z'"),
    "raises_odd_text": ("raise ValueError('\\ud800 \\x1b[31m')", "ValueError in call at", "raise ValueError"),
    "compiles_without_triton": (
        "from torch._inductor.exc import TritonMissing\nraise TritonMissing(None)",
        "Run `membudget install-torch --with triton` where",
        "raise TritonMissing",
    ),
    "prints_and_raises": (
        "print('seven layers')\nraise ValueError(7)",
        "The last of its output:\nseven layers",
        "raise ValueError(7)",
    ),
    "prints_and_crashes": (
        "os.write(2, b'about to\\n')\nos.kill(os.getpid(), signal.SIGSEGV)",
        "The last of its output:\nabout to",
        'File "',
    ),
    "is_out_of_memory": (
        "os.kill(os.getpid(), signal.SIGKILL)",
        "(SIGKILL) before its test did; the kernel does that when the machine's memory is full",
        "",
    ),
    "ends_itself": ("os.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(5)", "signal 15 (SIGTERM)", ""),
    "leaves_in_a_thread": (
        "thread = threading.Thread(target=os._exit, args=(9,))\nthread.start()\nthread.join()",
        "left with status 9 before its test did; let the body return, raise or call pytest.skip",
        "",
    ),
    "may_not_write": (
        "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\nprint('something')",
        "OSError in call at test_bodies.py:",
        "print('something')",
    ),
    "writes_everywhere": (
        "for number in range(3, 64):\n    try:\n        os.write(number, b'no JSON\\n')\n"
        "    except OSError:\n        pass",
        "has written into the pipe of its answer; let it write to descriptors that it has opened",
        "",
    ),
    "leaves_with_0": ("hold(8)\nos._exit(0)", "the test's process left with status 0", ""),
    "aborts": ("os.abort()", "was ended by signal 6 (SIGABRT)", ""),
    "ends_the_worker": ("os.kill(os.getppid(), signal.SIGKILL)\ntime.sleep(9)", "signal 9 (SIGKILL)", ""),
    "sys_exit": ("hold(8)\nsys.exit(0)", "SystemExit in call at test_bodies.py:", "sys.exit(0)"),
    "pytest_exit": ("hold(8)\npytest.exit('enough')", "enough", ""),
    "interrupts": (
        "hold(8)\nraise KeyboardInterrupt",
        "KeyboardInterrupt in the test at test_bodies.py:",
        "raise KeyboardInterrupt",
    ),
    "raises_without_source": (
        "made = {}\nexec('def raising(): raise ValueError(1)', made)\nmade['raising']()",
        "ValueError in call at test_bodies.py:",
        "made['raising']()",
    ),
    "raises_many_lines": ("raise ValueError('line\\n' * 100)", "(and 88 lines more)", "raise ValueError("),
    "asserts": ("assert hold(8).numel() == 3", "AssertionError in call at test_bodies.py:", ""),
    "thread_dies": (
        "kept = hold(8)\ndef work(): raise ValueError('in a thread')\n"
        "thread = threading.Thread(target=work)\nthread.start()\nthread.join()",
        "ValueError in a thread at test_bodies.py:",
        "",
    ),
    "failing_subtest": (
        "kept = hold(8)\nfor n in range(2):\n    with subtests.test(n=n):\n        assert n == 0",
        "AssertionError in call at test_bodies.py:",
        "",
    ),
    "forks_and_leaves": ("if os.fork() == 0:\n    time.sleep(60)\nos._exit(4)", "left with status 4", ""),
    # the process ends by itself, or is ended if that takes it long
    "closes_all_descriptors": ("os.closerange(3, 256)\nkept = hold(8)", "CLOSED", ""),
    "closes_all_and_hangs": (
        "os.closerange(3, 256)\ntime.sleep(60)",
        "has closed the pipe of its answer; let it",
        "",
    ),
    "asks": ("kept = hold(8)\ninput()", "EOFError in call at test_bodies.py:", "input()"),
    "is_debugged": (
        "kept = hold(8)\nbreakpoint()",
        # from 3.14 on pdb quits at the end of its input as if it were told to, and pytest's then leaves
        "BdbQuit in call at test_bodies" if sys.version_info < (3, 14) else "Exit in the test at test_bodies",
        "",
    ),
}
#: What ``CLOSED`` stands for: either is said.
CLOSED = ("left with status 1", "has closed the pipe")
#: Fixtures that bodies ask for.
ASKED = {
    "patches_cuda": "monkeypatch",
    "patches_its_move": "monkeypatch",
    "deletes_its_folder": "tmp_path",
    "deletes_all_folders": "tmp_path",
    "deletes_others_folders": "tmp_path",
    "reads_what_it_prints": "capfd",
    "skips_a_subtest": "subtests",
    "failing_subtest": "subtests",
}


def source():
    """All of them as one test file."""
    harmful = {name: body for name, (body, _, _) in HARMFUL.items()}
    return bodies.source(
        HARMLESS | harmful, HEAD, arguments=ASKED, budget="pytest.mark.mem_budget(gib=16 / 1024)"
    )
