"""torch.compile on cards that are not there: PyTorch's own compiler, and Triton's, with nothing launched."""

import os
import re
import sys
import types
from collections import Counter

import pytest
import torch
from torch import nn

from pytest_membudget.devices.real.recorded_run import RecordedRun
from pytest_membudget.devices.stand_in.device import StandInDevice
from pytest_membudget.devices.stand_in.environment import INDUCTOR_VARIABLE
from pytest_membudget.devices.torch_parts import torch_release
from pytest_membudget.hardware.gpus import find_gpu
from pytest_membudget.tracking.record import Phase

pytestmark = pytest.mark.slow

MIB = 2**20


def peaks_of_a_chain(folder):
    os.environ[INDUCTOR_VARIABLE] = folder
    run = RecordedRun()
    run.begin()

    def chain(x):
        return ((x * 2).sin() + 1).cos()

    compiled = torch.compile(chain, fullgraph=True)
    x = torch.empty(MIB, device="cuda")
    peaks = []
    for function in (chain, compiled, compiled):
        torch.cuda.reset_peak_memory_stats()
        function(x)
        peaks.append(torch.cuda.max_memory_allocated())
    run.end()
    return peaks


def test_a_fused_chain_has_no_intermediate_results(stand_in, tmp_path):
    eager, first, later = stand_in(peaks_of_a_chain, str(tmp_path))
    # 4 MiB each: the operand, and of the chain the two that an operator works with; fused, the result alone
    assert (eager, later) == (12 * MIB, 8 * MIB)
    # the first call tunes: between two tries it writes over the L2 cache (40 MiB: NVIDIA A100 white paper)
    assert first == 8 * MIB + 40 * MIB
    assert list(tmp_path.rglob("*.py"))  # inductor's code: it was compiled


def components_of_attention(folder):
    os.environ[INDUCTOR_VARIABLE] = folder
    attend = torch.nn.functional.scaled_dot_product_attention
    run = RecordedRun()
    run.begin()
    heads = [torch.randn(1, 8, 512, 64, device="cuda", requires_grad=True) for _ in range(3)]
    torch.compile(attend)(*heads).sum().backward()
    ledger = run.end().ledger
    sums = Counter()
    for record in ledger.alive_at(ledger.allocated_peak):
        sums[ledger.component_of(record)] += record.requested_bytes
    return [sums["inputs"], sums["activations"]]


def test_what_attention_saves_for_backward_are_activations(stand_in, tmp_path):
    """Outside modules: three operands of 8 heads of 64 by 512 in fp32, 1 MiB each, and a result."""
    inputs, activations = stand_in(components_of_attention, str(tmp_path))

    assert inputs == 3 * MIB
    # without dropout the state is a tensor of the host before 2.15 (transformers/cuda/attention.cu)
    logsumexp, random_state, sums = 8 * 512 * 4, 16 if torch_release() >= (2, 15) else 0, 8
    assert activations == MIB + logsumexp + random_state + sums


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(512, 2048)
        self.down = nn.Linear(2048, 512)

    def forward(self, x):
        y = self.up(x)
        y = nn.functional.silu(y) * 2
        return self.down(y)


class Net(nn.Module):
    def __init__(self, whole):
        super().__init__()
        self.gated = Gated()
        if not whole:
            self.gated.compile()

    def forward(self, x):
        return self.gated(x)


def rows_of_a_model(folder, whole):
    """Of what is there at the peaks of a compiled step's phases: component, module, line, operator."""
    os.environ[INDUCTOR_VARIABLE] = folder
    run = RecordedRun()
    run.begin()
    model = Net(whole).cuda()
    if whole:
        model = torch.compile(model)
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled=not whole):
        result = model(torch.randn(1024, 512, device="cuda"))
    torch.empty(256 * MIB, dtype=torch.uint8, device="cuda")  # the peak of the forward: what backward needs
    result.float().sum().backward()
    ledger = run.end().ledger
    first = Gated.forward.__code__.co_firstlineno
    return [
        [ledger.component_of(record), record.name or record.module, record.line - first, record.operator]
        for peak in (ledger.phase_peaks[phase] for phase in (Phase.FORWARD, Phase.BACKWARD))
        for record in ledger.alive_at(peak)
        if record.requested_bytes >= MIB and record.module
    ]


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "layer"])
def test_a_compiled_region_names_kernels_modules_and_the_users_lines(stand_in, tmp_path, whole):
    """By hand: forward keeps a product of 1024 by 2048 and what a kernel makes of it; backward its gradient.

    Of the layer under autocast it needs a copy of the last weight too, for which inductor takes the memory of
    the first one's. Kernels are named by ``TritonScheduling.define_kernel``, ``descriptive_names`` of 2.13
    and a number.
    """
    rows = {
        (*where, re.sub(r"_\d+$", "", kernel))
        for *where, kernel in stand_in(rows_of_a_model, str(tmp_path), whole)
    }

    assert ("activations", "gated.up", 1, "aten::addmm") in rows
    assert ("activations", "gated", 2, "triton_poi_fused_mul_silu") in rows
    takes_the_first = torch_release() >= (2, 13)  # and backward has its peak at a product, not at a tuning
    if whole or takes_the_first:
        assert ("temporaries", "gated.down", 3, "aten::mm") in rows
    assert (("gradients", "gated.down.weight", 3, "aten::mm") in rows) == whole
    copies = {
        path for component, path, _, kernel in rows if (component, kernel[:7]) == ("parameters", "triton_")
    }
    assert copies == (set() if whole else {"gated.up" if takes_the_first else "gated.down"})
    assert {line for *_, line, _ in rows} <= {1, 2, 3}


def folders_of_two_tests(around):
    from pytest_membudget.devices.stand_in.device import _forget_compiled_code

    folders = []
    for _ in range(2):
        os.environ[INDUCTOR_VARIABLE] = around
        _forget_compiled_code()
        folders.append(os.environ[INDUCTOR_VARIABLE])
    return folders


def test_no_test_finds_what_another_one_has_compiled(stand_in, tmp_path):
    first, second = stand_in(folders_of_two_tests, str(tmp_path / "inductor"))
    assert first != second
    assert all(os.path.dirname(folder) == str(tmp_path / "inductor") for folder in (first, second))
    assert not os.listdir(first)


def peak_of_a_tuned_kernel(triton_folder):
    """Of a kernel whose tuning Triton keeps on disk, in a new process."""
    os.environ["TRITON_CACHE_DIR"] = triton_folder
    import triton
    import triton.language as tl

    from pytest_membudget.devices.stand_in.device import _forget_compiled_code

    @triton.autotune([triton.Config({"width": width}) for width in (64, 128)], key=["n"], cache_results=True)
    @triton.jit
    def double(x, n, width: tl.constexpr):
        places = tl.program_id(0) * width + tl.arange(0, width)
        tl.store(x + places, 2 * tl.load(x + places, mask=places < n), mask=places < n)

    _forget_compiled_code()
    x = torch.empty(MIB, device="cuda")
    double[(MIB // 64,)](x, MIB)
    return torch.cuda.max_memory_allocated()


def test_no_test_finds_what_another_one_has_tuned(stand_in, tmp_path):
    """``triton.testing.do_bench`` writes over 256 MB before each try (triton/backends/nvidia/driver.py)."""
    peaks = [stand_in(peak_of_a_tuned_kernel, str(tmp_path)) for _ in range(2)]
    assert peaks == [4 * MIB + 256 * MIB] * 2


def hashes_of_triton():
    from triton.runtime.cache import triton_key

    device = StandInDevice(find_gpu("A100-80GB"))
    before = triton_key.cache_info().currsize
    device.end_imports()
    return before, triton_key.cache_info().currsize


def with_another_triton():
    sys.modules["triton.runtime.cache"] = types.ModuleType("triton.runtime.cache")
    StandInDevice(find_gpu("A100-80GB")).end_imports()
    return "ended"


def test_a_triton_that_names_its_files_otherwise_ends_no_worker(stand_in):
    assert stand_in(with_another_triton) == "ended"


def test_tritons_files_are_read_before_tests_which_run_in_processes_of_their_own(stand_in):
    assert stand_in(hashes_of_triton) == [0, 1]


def calls_of_a_benchmark():
    import triton

    calls = []
    triton.testing.do_bench(lambda: calls.append(None))
    return len(calls)


def test_kernels_are_tried_as_seldom_as_those_that_take_long(stand_in):
    """One that compiles, five to see how long it takes, one to warm up, one that is measured (Triton 3.7)."""
    assert stand_in(calls_of_a_benchmark) == 1 + 5 + 1 + 1


def tuned_product(folder):
    """What a compiled product calls, and its peaks: tuned, and later."""
    os.environ[INDUCTOR_VARIABLE] = folder
    import torch._inductor.config as inductor
    from torch._inductor.utils import run_and_get_code

    inductor.test_configs.max_mm_configs = 2  # of some twenty, each compiled
    left, right = (torch.randn(512, 512, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    compiled = torch.compile(lambda a, b: a @ b, mode="max-autotune-no-cudagraphs")
    result, (code,) = run_and_get_code(compiled, left, right)
    peaks = [torch.cuda.max_memory_allocated()]
    del result
    torch.cuda.reset_peak_memory_stats()
    compiled(left, right)
    peaks.append(torch.cuda.max_memory_allocated())
    calls = [line.strip() for line in code.splitlines() if "extern_kernels.mm" in line or ".run(" in line]
    return calls, peaks


def test_tuning_chooses_the_same_each_time(stand_in, tmp_path):
    """All choices take equally long; in two processes, each with an empty folder."""
    (first, peaks), (second, _) = (stand_in(tuned_product, str(tmp_path / name)) for name in ("a", "b"))
    assert first == second == ["extern_kernels.mm(arg0_1, arg1_1, out=buf0)"]
    matrix, workspace = 512 * 512 * 2, 8_519_680  # cuBLAS's before Hopper (CUDABlas.cpp)
    # operands, and the tuner's own with its result, while the L2 cache is written over; operands and result
    assert peaks == [5 * matrix + 40 * MIB + workspace, 3 * matrix + workspace]


def graph_of_a_chain(folder):
    os.environ[INDUCTOR_VARIABLE] = folder
    run = RecordedRun()
    run.begin()

    def chain(x):
        y = (x * 2).sin()
        return (y + 1).cos()

    compiled = torch.compile(chain, mode="reduce-overhead")
    x = torch.empty(MIB, device="cuda")
    peaks = []
    for _ in range(4):
        result = None
        torch.cuda.reset_peak_memory_stats()
        torch.compiler.cudagraph_mark_step_begin()
        result = compiled(x)
        peaks.append(torch.cuda.max_memory_allocated())
    del result
    torch.cuda.empty_cache()
    pools = [
        [segment["segment_pool_id"][1], segment["total_size"]] for segment in torch.cuda.memory_snapshot()
    ]
    ledger, first = run.end().ledger, chain.__code__.co_firstlineno
    rows = [(one.operator, one.line - first) for one in ledger.alive_at(ledger.allocated_peak)]
    return peaks, sorted(pools), rows


def test_cuda_graphs_have_a_pool_of_their_own(stand_in, tmp_path):
    """Steps of ``CUDAGraphTreeManager``: one in the graph's pool without a graph, a recording, replays."""
    peaks, pools, rows = stand_in(graph_of_a_chain, str(tmp_path))
    # the operand, the result and the L2 cache's buffer; the operand, its copy in the pool and the result
    # before 2.15 each graph has a seed and an offset (CUDAGeneratorImpl.cpp): the empty one that keeps the
    # pool, and the recording; 512 bytes each. 2.11 has them once for all graphs
    state = 0 if torch_release() >= (2, 15) else 2 * 512
    states = 2 * state if torch_release() >= (2, 13) else state
    assert peaks[:2] == [8 * MIB + 40 * MIB + state, 12 * MIB + states]
    # a replay allocates nothing: the operand alone is the allocator's
    assert peaks[-1] == 4 * MIB + states
    # 4 MiB are cut from a segment of 20 MiB (kLargeBuffer); a pool that a graph holds keeps all of its own
    small = [[0, 2 * MIB]] if state else []  # kSmallBuffer, of the states
    assert pools == [*small, [0, 20 * MIB], [1, 20 * MIB], [1, 40 * MIB]]
    kernel = "triton_poi_fused_add_cos_mul_sin_0"
    assert rows.count([f"tuning of {kernel}", 2]) == 1  # the L2 cache's buffer
    assert rows.count([kernel, 2]) == 1
