"""torch.profiler and NVTX on the stand-in: no record of kernels, but those of operators and memory."""

from pytest_membudget.devices.torch_parts import torch_release


def profiled():
    import torch
    from allocations import not_modelled

    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        torch.cuda.nvtx.range_push("step")
        x = torch.zeros(1024, 1024, device="cuda")
        (x @ x).sum()
        torch.cuda.nvtx.range_pop()
    taken = {event.key: event.self_device_memory_usage for event in profile.key_averages()}
    return taken["aten::empty"], taken["aten::mm"], not_modelled()


def test_a_profile_has_the_memory_of_its_operators(stand_in):
    """A 4 MiB tensor for each: what torch.profiler attributes to the operator that allocates."""
    empty_bytes, mm_bytes, names = stand_in(profiled)

    assert empty_bytes == 4 * 2**20
    # before 2.15 the product's workspace is kept: 8,519,680 bytes on this card (CUDABlas.cpp)
    assert mm_bytes == 4 * 2**20 + (0 if torch_release() >= (2, 15) else 8_519_680)
    assert names == []
