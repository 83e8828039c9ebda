"""Memory that is given to somebody else: nothing is known of what its last owner had there."""

import ctypes

import pytest
import torch

#: What is answered where nobody knows a whole number, and the report says so.
ASSUMED = 1


def freed_address():
    """Of a tensor whose values were known, 7 throughout."""
    known = torch.full((64,), 7, dtype=torch.long, device="cuda")
    assert known[3].item() == 7
    return known.data_ptr()


def read_where_another_was(how):
    address = freed_address()
    if how == "an operator":  # its C++ allocates; ``empty`` is not called
        another = torch.empty(128, dtype=torch.long, device="cuda")[::2].contiguous()
        last = torch.empty(64, dtype=torch.long, device="cuda")
        return [tensor[3].item() for tensor in (another, last) if tensor.data_ptr() == address]
    if how == "nobody's":
        torch.cuda.caching_allocator_delete(torch.cuda.caching_allocator_alloc(512))
    elif how == "another segment's":
        torch.cuda.empty_cache()
    another = torch.empty(64, dtype=torch.long, device="cuda")
    return [another[3].item()]


@pytest.mark.parametrize("how", ["empty", "an operator", "nobody's", "another segment's"])
def test_a_new_tensor_is_unknown(trace, how):
    traced = trace(read_where_another_was, how)

    assert traced.value == [ASSUMED]
    assert len(traced.report.assumptions) == 1


def kept_alive():
    known = torch.full((64,), 7, dtype=torch.long, device="cuda")
    for _ in range(3):
        other = torch.empty(64, dtype=torch.long, device="cuda")
        del other
    return known[3].item()


def test_what_lives_stays_known(trace):
    traced = trace(kept_alive)

    assert traced.value == 7
    assert traced.report.assumptions == ()


def count_where_another_was():
    mask = torch.randn(3, 8, device="cuda") > 0
    address = mask.sum(1).data_ptr()
    another = torch.empty(3, dtype=torch.long, device="cuda")
    return another.data_ptr() == address, another[0].item()


def test_a_count_of_trues_is_forgotten_too(trace):
    """Of eight that nobody knows more than one is taken to be true; of another tensor nobody says so."""
    assert trace(count_where_another_was).value == [True, ASSUMED]


def reports_of(bytes_):
    reports = ctypes.c_ulonglong.in_dll(ctypes.CDLL(None), "stand_in_reports")
    torch.zeros(1, device="cuda")
    before = reports.value
    torch.empty(bytes_, dtype=torch.uint8, device="cuda")
    return reports.value - before


@pytest.mark.parametrize("bytes_", [1, 2**22, 2**30])
def test_pytorchs_allocator_reports_what_it_gives_and_takes_back(stand_in, bytes_):
    """Breaks when torch calls ``c10::reportMemoryUsageToProfiler`` no more, or hides it from other libraries.

    Values of a tensor would then be taken for those of the next one in its memory. Where it is not called at
    all, following says so and raises.
    """
    assert stand_in(reports_of, bytes_, unlimited=True) == 2


def first_of_a_process():
    return list(torch.zeros(0, 3).cuda().shape)


def test_an_empty_tensor_may_come_before_all_allocations(trace):
    assert trace(first_of_a_process).value == [0, 3]


def profiled():
    with torch.profiler.profile(profile_memory=True) as profile:
        kept = torch.empty(2**22, dtype=torch.uint8, device="cuda")
    assert kept.is_cuda
    return max(event.device_memory_usage for event in profile.events())


def test_pytorchs_profiler_is_reported_too(stand_in):
    assert stand_in(profiled, not_modelled=("cupti",)) == 2**22
