"""What estimates assume and leave out, and what ``--membudget-strict`` makes of it, kept estimates too.

Among it work that a test leaves to threads, and cards that it looks for by itself.
"""

import re

import pytest

from tests.plugin.bodies import source

HEAD = """\
import ctypes.util, gc, glob, multiprocessing, os, shutil, subprocess, sys, threading, time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import pytest_membudget

budget = pytest.mark.mem_budget(gib=1)
POOL = ThreadPoolExecutor()

def hold(rows=2**10):
    return torch.ones(rows, 2**10, device="cuda")

def make_rings(count):
    for _ in range(count):  # a list, and its tensor of 1 MiB
        ring = [hold(2**8)]
        ring.append(ring)

def lengths():
    return torch.randn(64, device="cuda").mul(100).long().sum().item()

"""
METHODS = ("spawn", "fork", "forkserver")
#: The causes of a test's caveats, whether a strict session fails it, and its body.
TESTS = {
    "loss": (
        set(), False, "loss = torch.randn(2**10, 2**10, device='cuda').mean()\nassert loss.item() is not None"
    ),
    "largest_size": ({"worst-case"}, False, "x = torch.randn(2**20, device='cuda')\nkept = x[x > 0]"),
    "share_that_is_said": ({"given"}, False, "x = torch.randn(2**20, device='cuda')\nkept = x[x > 0]"),
    "size_that_is_said": (
        {"given"}, False, "with pytest_membudget.assume(value=64):\n    hold(int(lengths()) + 1)"
    ),
    "smaller_batch": (
        {"out-of-memory", "method"}, False,
        "try:\n    hold(10 * 2**20)\nexcept torch.OutOfMemoryError:\n    hold(2**11)",
    ),
    "process": ({"process"}, True, "hold()\nsubprocess.run([sys.executable, '-c', ''], check=True)"),
    **{  # no audit event says that one is spawned
        f"process_by_{method}": (
            {"process"}, True,
            f"hold()\nmultiprocessing.get_context('{method}').Process(target=int).start()",
        )
        for method in METHODS
    },
    "tool": (
        {"tool"}, False,
        "hold()\nsubprocess.run(['uname'], check=True, capture_output=True)\n"
        "subprocess.run('\"uname\" -a', shell=True, check=True, capture_output=True)\n"
        "try: subprocess.run(['lspci'], capture_output=True)\nexcept OSError: pass",
    ),
    "process_of_a_function_that_is_not_compiled": (
        {"process"}, True, "hold()\ntorch.compiler.disable(lambda: subprocess.run(['true']))()"
    ),
    "process_that_asks_for_the_cpu": (
        set(), False,
        "hold()\nask = 'subprocess.run([sys.executable, \"-c\", \"\"], check=True)'\n"
        "exec(ask, {'__name__': 'cpuinfo.cpuinfo', 'subprocess': subprocess, 'sys': sys})",
    ),
    "thread": ({"thread"}, True, "hold()\nthreading.Timer(0.5, hold).start()"),
    "thread_that_is_joined": (
        set(), False, "thread = threading.Thread(target=hold)\nthread.start()\nthread.join()"
    ),
    "pool_that_waits": (set(), False, "hold()\nlist(POOL.map(abs, range(4)))\ntime.sleep(0.2)"),
    "device_file": ({"card-sought"}, True, "hold(2**11 if os.path.exists('/dev/nvidia0') else 2**10)"),
    "driver_file": (
        {"card-sought"}, True, "hold(2**11 if os.path.exists('/proc/driver/nvidia/version') else 2**10)"
    ),
    "driver_file_that_is_read": (
        {"card-sought"}, True,
        "try: kept = hold(len(open('/proc/driver/nvidia/version').read()))\nexcept OSError: hold()",
    ),
    "listed_cards": (
        {"card-sought"}, True,
        "try: hold(2**10 * len(os.listdir('/proc/driver/nvidia/gpus')))\nexcept OSError: hold()",
    ),
    "device_files_by_a_pattern": ({"card-sought"}, True, "hold(1 + len(glob.glob('/dev/nvidia[0-9]*')))"),
    "other_files": (
        set(), False,
        "hold(len(glob.glob('/dev/nul*')) + len(os.listdir('/proc/self')))\nopen('/proc/stat').close()",
    ),
    "driver_library": ({"card-sought"}, True, "hold(2**11 if ctypes.util.find_library('cuda') else 2**10)"),
    "other_library": (set(), False, "hold(2**11 if ctypes.util.find_library('c') else 2**10)"),
    "card_tool": (set(), False, "hold(2**11 if shutil.which('nvidia-smi') else 2**10)"),
    "card_tool_that_is_run": (
        set(), False,
        "cards = subprocess.run(['nvidia-smi', '-L'], capture_output=True, check=True).stdout.splitlines()\n"
        "hold(2**11 * len(cards))",
    ),
    "card_tool_whose_table_is_read": (
        {"card-sought"}, True,
        "said = subprocess.run(['nvidia-smi'], capture_output=True, check=True, text=True).stdout\n"
        "hold(2**11 if 'MiB' in said else 2**10)",
    ),
    "card_tool_that_does_not_know": (
        {"card-sought"}, True, "hold()\nsubprocess.run(['nvidia-smi', '--query-gpu=memory.used'])"
    ),
    "other_tool": (set(), False, "hold(2**11 if shutil.which('git') and os.path.exists('/dev/null') else 2)"),
    # small numbers are no maximum above 0.01, large ones no sum below 50
    "branch_past_two_assertions": (
        {"depends"}, True,
        "x = torch.randn(64, device='cuda')\nassert x.sum().item() < 50\nassert x.max().item() > 0.01\n"
        "if x.mean() > 0:\n    hold(2**9)",
    ),
    "rings": ({"collected"}, False, "make_rings(600)"),  # no more is allocated in any run
    "rings_that_are_reserved": ({"collected"}, True, "make_rings(600)"),
    "rings_below_the_peak": (
        set(), False, "make_rings(400)\ngc.collect()\ntorch.cuda.empty_cache()\nhold(2**17)"
    ),
    "rings_that_are_collected": (set(), False, "for _ in range(600):\n    make_rings(1)\n    gc.collect(1)"),
    # 1 GiB has room for the 9 MiB that it may take more
    "convolution": (
        {"convolution"}, False,
        "x, weight = (torch.randn(size, device='cuda') for size in ((64, 64, 56, 56), (64, 64, 3, 3)))\n"
        "torch.nn.functional.conv2d(x, weight.requires_grad_(), padding=1).sum().backward()",
    ),
    # among others of cuSOLVER's
    "solver": (
        None, True,
        "torch.linalg.cholesky(torch.eye(64, device='cuda') + torch.randn(64, 64, device='cuda'))",
    ),
}  # fmt: skip
MARKS = {
    "share_that_is_said": "budget\n@pytest_membudget.assume(true_fraction=0.5)",
    "smaller_batch": "pytest.mark.mem_budget(gib=80, gpu='RTX-4090')",
    "rings_that_are_reserved": "pytest.mark.mem_budget(gib=1, metric='reserved')",
}
FILES = {"test_budgets.py": source({name: body for name, (*_, body) in TESTS.items()}, HEAD, MARKS)}
STARTED = "a process is started( .*)?: what it allocates is not counted"
#: MiB: numbers, their mask, places and what is selected; what fits a smaller card; of rings 600, or 512
#: afterwards, or one that waits for the collection of the one before; what a card's tool lets a body take.
SIZES = {
    "largest_size": 4 + 1 + 8 + 4,
    "share_that_is_said": 4 + 1 + (8 + 4) / 2,
    "smaller_batch": 8,
    "rings": 600,
    "rings_that_are_reserved": 600,
    "rings_below_the_peak": 512,
    "rings_that_are_collected": 1,
    "card_tool": 8,
    "card_tool_that_is_run": 8,
}


@pytest.fixture(scope="module")
def runs(session_of, tmp_path_factory):
    env = {"MEMBUDGET_CACHE_DIR": str(tmp_path_factory.mktemp("kept"))}
    lenient = session_of(FILES, "--membudget", env=env)
    return lenient, session_of(FILES, "--membudget", "--membudget-strict", env=env)


def test_the_kinds_of_caveats(runs):
    lenient, _ = runs
    rows = lenient.rows
    found = {
        name: {one["cause"] for one in row["estimates"][0]["caveats"]} - {"operator"}
        for name, row in rows.items()
    }

    causes = {f"test_{name}": causes for name, (causes, *_) in TESTS.items() if causes is not None}
    assert {name: found[name] for name in causes} == causes
    kinds = {one["kind"] for one in rows["test_solver"]["estimates"][0]["caveats"]}
    assert "missing" in kinds


def test_all_pass_without_it(runs):
    lenient, _ = runs

    assert set(lenient.outcomes.values()) == {"passed"}, lenient.out


def test_what_decides_a_size_and_what_is_missing_fails_with_it(runs):
    _, strict = runs

    unchecked = {f"test_{name}" for name, (_, fails, _) in TESTS.items() if fails}
    assert {name for name, outcome in strict.outcomes.items() if outcome == "failed"} == unchecked


def texts_of(runs, name):
    return [one["text"] for one in runs[0].rows[f"test_{name}"]["estimates"][0]["caveats"]]


def test_figures_are_of_the_worst_case_and_as_if_python_collected_nothing(runs):
    assert {name: runs[0].allocated(f"test_{name}") / 2**20 for name in SIZES} == SIZES
    [text] = texts_of(runs, "rings")
    assert text.startswith("reference cycles hold tensors until Python collects garbage")
    assert text.endswith(" to 0.59 GiB")


@pytest.mark.parametrize("name", ["process", *(f"process_by_{method}" for method in METHODS)])
def test_a_caveat_names_its_line(runs, name):
    line = FILES["test_budgets.py"].splitlines().index(f"def test_{name}():") + 3

    [text] = texts_of(runs, name)
    assert re.fullmatch(rf"test_budgets\.py:{line}: {STARTED}", text), text


def test_the_figures_do_not_move(runs):
    lenient, strict = runs

    def peaks(run):
        return {name: row["estimates"][0]["peak"] for name, row in run.rows.items()}

    assert peaks(lenient) == peaks(strict)


def test_the_failure_says_what_and_what_to_do(runs):
    _, strict = runs
    line = FILES["test_budgets.py"].partition("/dev/nvidia0")[0].count("\n") + 1

    assert "Timer Thread-" in strict.text("test_thread")
    assert "join the thread before the test's body ends" in strict.text("test_thread")
    said = f"test_budgets.py:{line}: looks for nvidia0, which a machine with a card has"
    assert said in strict.text("test_device_file")
    assert "ask torch: torch.cuda.is_available()" in strict.text("test_device_file")
