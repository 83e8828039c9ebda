"""Host tensors on the stand-in: counted to the byte, large ones without their memory and their work."""

import gc
import os
import threading

import numpy
import pytest
import torch
from torch import nn

from pytest_membudget.devices.stand_in.host.run import HostRun
from pytest_membudget.devices.stand_in.values.variants import VARIANT
from pytest_membudget.devices.torch_parts import torch_release

MIB = 1 << 20
GIB = 1 << 30


def host_run():
    """That of the device."""
    (found,) = (one for one in gc.get_objects() if isinstance(one, HostRun))
    return found


def are_hollow(*tensors):
    memory = host_run()._memory
    return [memory.hollow(one) != 0 for one in tensors]


def resident_bytes():
    """The process's own memory: how many pages of libraries the kernel maps at once differs between hosts."""
    with open("/proc/self/status", encoding="ascii") as file:
        fields = dict(line.split(":", 1) for line in file)
    return sum(int(fields[name].split()[0]) * 1024 for name in ("RssAnon", "RssShmem"))


def moved_model(dtype_name, layers):
    before = resident_bytes()
    dtype = getattr(torch, dtype_name)
    model = nn.Sequential(*(nn.Linear(16384, 16384, bias=False, dtype=dtype) for _ in range(layers)))
    for layer in model:
        nn.init.trunc_normal_(layer.weight, std=0.02)
    model.cuda()
    return resident_bytes() - before


@pytest.mark.parametrize(("dtype", "layers"), [("bfloat16", 8), ("float32", 4)])
def test_a_model_of_4_gib_is_built_and_moved_without_its_memory_and_counted(trace, dtype, layers):
    traced = trace(moved_model, dtype, layers)

    # 8 x 16,384^2 x 2 B = 4 x 16,384^2 x 4 B; drawing again, from 2.12 on trunc_normal_ compares: two masks
    # of a byte an element for the layer at hand, and their union
    weights = 4 * GIB
    masks = 3 * 16384**2 if torch_release() >= (2, 12) else 0
    host = traced.report.host
    assert host.components["parameters"] == traced.parameters == weights
    assert weights + masks <= host.peak["allocated"] < weights + masks + 256
    assert traced.value < 200 * MIB


def small_values():
    whole, half, numbers = torch.tensor(2), torch.tensor(2.0, dtype=torch.float16), torch.arange(3)
    results = [
        torch.randn(8, generator=torch.Generator().manual_seed(3)), (numbers * 2 + 1).sum(),
        torch.ones(3) / 4 + 0.5, torch.ones(2, dtype=torch.bfloat16) * 0.1, numbers > 1.5,
        2.5**numbers, 2**half, half + 1e9, whole * 1.5, numbers / 2, torch.where(numbers > 1, numbers, 0.5),
        torch.true_divide(whole, 3), torch.remainder(7, numbers + 1), torch.bitwise_and(3, numbers),
        whole * 1j,
    ]  # fmt: skip
    return [[str(result.dtype), str(result.tolist())] for result in results]


def beside_a_large_one():
    large = torch.randn(MIB)
    return small_values(), are_hollow(large, torch.randn(8), torch.arange(5))


def test_values_of_small_host_tensors_are_computed_and_have_their_types(trace):
    traced = trace(beside_a_large_one)

    assert traced.value == [small_values(), [True, False, False]]
    assert not traced.assumptions


def real_data():
    noise = torch.randn(4 * MIB)
    data = torch.from_numpy(numpy.arange(4 * MIB, dtype=numpy.float64))
    copied = torch.empty(4 * MIB, dtype=torch.float64).copy_(data)
    copied += 1
    grid = torch.arange(4 * MIB, dtype=torch.float32)
    counts = torch.zeros(4 * MIB)
    counts[7] = 3
    reused = noise.clone()
    reused.copy_(grid)
    means = [float(one.mean()) for one in (data, copied, grid[:1001], reused[:1001])]
    return means, float(counts.sum()), are_hollow(data, copied, grid, counts, reused)


def test_a_real_data_set_stays_real(trace):
    traced = trace(real_data)

    middle = (4 * MIB - 1) / 2
    assert traced.value == [[middle, middle + 1, 500.0, 500.0], 3.0, [False] * 5]
    assert not traced.assumptions


def hollow_reads():
    noise = torch.randn(4 * MIB)
    mean = (noise * 2).mean()
    mean.item()
    noise[:2].numpy()
    torch.randn(8 * MIB).numpy()
    from_card = torch.ones(4 * MIB, device="cuda").cpu()
    return are_hollow(mean, from_card)


def test_reads_of_what_was_not_computed_are_listed_with_their_lines(trace):
    traced = trace(hollow_reads)

    first = hollow_reads.__code__.co_firstlineno
    assert traced.value == [True, True]
    assert [one.text for one in traced.report.caveats] == [
        *(
            f"test_host_tensors.py:{first + line} reads a float32 value (once): taken to be 1.0"
            for line in (3, 4)
        ),
        f"test_host_tensors.py:{first + 5} reads float32 values of a host tensor that were not computed; "
        "what its memory holds is used",
    ]


def sparse_from_large(layout):
    dense = torch.randn(1024, 1024)
    sparse = dense.to_sparse(layout=getattr(torch, layout)).cuda()
    return sparse.values().nbytes if layout == "sparse_csr" else sparse._values().nbytes


@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr"])
def test_a_large_tensor_becomes_sparse_on_the_host_with_all_of_its_elements_at_most(trace, layout):
    # 4-byte values, each with its row and its column of 8 bytes, or its column and 1,025 begins of rows
    traced = trace(sparse_from_large, layout)

    assert traced.value == 4 * MIB
    indices = {"sparse_coo": 2 * 8 * MIB, "sparse_csr": 8 * MIB + 1025 * 8}[layout]
    assert traced.report.peak["allocated"] == -(-(4 * MIB + indices) // 512) * 512


def zeros_and_fills():
    before = resident_bytes()
    zeros = torch.zeros(GIB // 4)
    untouched = resident_bytes() - before
    filled = torch.full((MIB,), 3.0)
    filled[1:].zero_()
    return float(zeros[-8:].sum()), float(filled.sum()), untouched < 16 * MIB


def test_zeros_are_zero_and_take_no_pages(trace):
    assert trace(zeros_and_fills).value == [0.0, 3.0, True]


def offloaded_optimizer(foreach):
    before = resident_bytes()
    weight = nn.Parameter(torch.empty(64 * MIB).normal_())
    optimizer = torch.optim.AdamW([weight], foreach=foreach)
    for _ in range(2):
        on_card = weight.detach().cuda()
        weight.grad = (on_card * 2).cpu()
        optimizer.step()
    return resident_bytes() - before


@pytest.mark.parametrize(("foreach", "temporaries"), [(False, 2), (True, 1)])
def test_optimizer_states_on_the_host_are_counted_at_the_peak(trace, foreach, temporaries):
    traced = trace(offloaded_optimizer, foreach)

    # weight, gradient and both states; torch/optim/adam.py (2.15), _single_tensor_adam: while the root of the
    # second state is divided, it and the quotient are there; _multi_tensor_adam divides the roots in place.
    # A step counter of 4 B, and numbers of 8 B
    each, host = 256 * MIB, traced.report.host
    assert host.components["parameters"] == host.components["gradients"] == each
    assert 2 * each <= host.components["optimizer_states"] <= 2 * each + 8
    assert temporaries * each <= host.components["temporaries"] < temporaries * each + 64
    assert host.peak["allocated"] == sum(host.components.values())
    assert traced.value < 200 * MIB


def copied_to_the_host(name, variant):
    VARIANT.begin(variant, ())
    rows = torch.rand(MIB // 8, 16, device="cuda")
    made = {
        "numbers": lambda: rows[:, :2].contiguous(),
        "whole numbers": lambda: torch.randint(0, 1000, (MIB // 8,), device="cuda"),
        "options": lambda: rows.argmax(1),
        "truths": lambda: (rows > 0.5)[:, :8].contiguous(),
        "printed": lambda: torch.ones(len(str(rows)), MIB // 4, device="cuda")[0],
    }[name]()
    return made.cpu().nbytes


@pytest.mark.parametrize("variant", [0, 1, 2])
@pytest.mark.parametrize("name", ["numbers", "whole numbers", "options", "truths", "printed"])
def test_a_copy_to_the_host_alone_counts_whatever_it_is_taken_to_hold(trace, name, variant):
    traced = trace(copied_to_the_host, name, variant)

    assert traced.report.host.peak["allocated"] == traced.value == MIB


def pinned_memory(mib, copies):
    if copies:
        kept = torch.empty(mib * MIB, dtype=torch.uint8).pin_memory()
    else:
        kept = torch.empty(mib * MIB, dtype=torch.uint8, pin_memory=True)
    return kept.is_pinned(), *are_hollow(kept)


@pytest.mark.parametrize(("mib", "copies", "peak_mib"), [(3, False, 4), (4, False, 4), (3, True, 3 + 4)])
def test_pinned_memory_counts_in_powers_of_two(trace, mib, copies, peak_mib):
    """CachingHostAllocatorImpl::allocate (aten/src/ATen/core/CachingHostAllocator.h, 2.15).

    While pageable memory is copied there are both.
    """
    traced = trace(pinned_memory, mib, copies)

    assert traced.value == [True, False]
    assert peak_mib * MIB <= traced.report.host.peak["allocated"] < peak_mib * MIB + 64


def pinned_and_used(how):
    if how == "copied":
        kept = torch.empty(18944, 3584, dtype=torch.float16).pin_memory()
    elif how == "read":
        kept = torch.empty(18944, 3584, dtype=torch.float16, device="cuda").to("cpu", non_blocking=True)
    else:
        kept = torch.empty(18944, 3584, dtype=torch.float16, pin_memory=True)
        kept = kept.zero_() if how == "filled" else kept.cuda()
    return kept.dim()


@pytest.mark.parametrize("how", ["copied", "read", "filled", "sent"])
def test_what_pinned_memory_has_more_than_its_tensor_is_rounding(trace, how):
    """18,944 x 3,584 numbers of 2 B are 129.5 MiB, for which 256 are taken."""
    host = trace(pinned_and_used, how).report.host

    [rounding] = [row for row in host.holders if row.component == "rounding"]
    assert rounding.bytes == host.components["rounding"] == 256 * MIB - 18944 * 3584 * 2 == 126.5 * MIB
    assert "test_host_tensors.py" in rounding.location


def threads_and_forks():
    torch.set_num_threads(1)  # a pool of threads does not survive a fork
    errors = []

    def add_up(size):
        tensor = torch.zeros(size * 1000)
        tensor[-1] = size
        assert float(tensor.sum()) == size

    # PyTorch chooses a kernel at an operator's first call, behind a lock of C++ that a child of fork would
    # find held by a thread that it has not (DispatchStubImpl::try_choose_cpu_impl, DispatchStub.cpp, 2.15)
    add_up(1)
    assert float(torch.ones(1).sum()) == 1

    def work():
        try:
            for size in range(1, 60):
                add_up(size)
        except BaseException as error:
            errors.append(repr(error))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    statuses = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            os._exit(0 if float(torch.ones(MIB).sum()) == MIB else 1)
        statuses.append(os.waitpid(child, 0)[1])
    for thread in threads:
        thread.join()
    kept = torch.zeros(2 * MIB, dtype=torch.uint8)
    host_run().report(root="/")  # all that has happened is taken in
    held = host_run().ledger.allocated_bytes
    return errors, statuses, kept.nbytes <= held < kept.nbytes + 1024


def test_threads_and_forks_go_on_allocating_and_all_is_given_back(trace):
    assert trace(threads_and_forks).value == [[], [0] * 4, True]


def large_blocks():
    dirty = 0
    for _ in range(300):  # more than there are addresses for at once
        block = torch.empty(100 * GIB, dtype=torch.uint8)
        dirty += int(block[-1]) + int(block[50 * GIB])
        block[-1] = block[50 * GIB] = 1
        del block
    first, second = (torch.empty(size, dtype=torch.uint8) for size in (3 * MIB, 100 * GIB))
    return dirty, first.data_ptr() != second.data_ptr()


def test_addresses_of_large_blocks_are_used_again_and_are_zero(trace):
    traced = trace(large_blocks)

    assert traced.value == [0, True]
    assert 100 * GIB + 3 * MIB <= traced.report.host.peak["allocated"] < 100 * GIB + 3 * MIB + 64
