"""The cards that torch finds on the stand-in: what they are, and how much they hold."""

import pytest

from pytest_membudget.devices.stand_in.card_figures import limits_of
from pytest_membudget.hardware.gpus import find_gpu, load_gpus
from pytest_membudget.units import GIB, KIB, MIB


def what_torch_sees():
    import torch

    found = torch.cuda.get_device_properties(0)
    return {
        "available": torch.cuda.is_available(),
        "count": torch.cuda.device_count(),
        "total_bytes": found.total_memory,
        "capability": [found.major, found.minor],
        "multiprocessor_count": found.multi_processor_count,
        "shared_bytes": found.shared_memory_per_block_optin,
        "l2_bytes": found.L2_cache_size,
        "threads": found.max_threads_per_multi_processor,
        "name": torch.cuda.get_device_name(0),
    }


@pytest.mark.parametrize("name", ["T4", "A100-80GB", "B200-180GB"])
def test_torch_sees_the_catalogues_card(stand_in, name):
    gpu, limits = find_gpu(name), limits_of(find_gpu(name))

    seen = stand_in(what_torch_sees, gpu=name)

    assert seen == {
        "available": True,
        "count": 1,
        "total_bytes": gpu.total_bytes,
        "capability": list(gpu.capability),
        "multiprocessor_count": gpu.multiprocessor_count,
        "shared_bytes": limits.block_shared_kib * KIB,
        "l2_bytes": gpu.properties.l2_kib * KIB,
        "threads": limits.threads,
        "name": gpu.properties.name,
    }


def the_message_of_too_much(gib):
    import torch

    kept = torch.empty(70 * 2**30, dtype=torch.uint8, device="cuda")
    try:
        torch.empty(gib * 2**30, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError as error:
        return str(error)
    return f"no error, {kept.nbytes}"


def test_more_than_a_card_holds_is_pytorchs_own_error(stand_in):
    gpu = find_gpu("A100-80GB")
    free = gpu.total_bytes - gpu.context_bytes - 70 * GIB
    in_use = (gpu.context_bytes + 70 * GIB) / GIB

    message = stand_in(the_message_of_too_much, 10)

    assert message.startswith(
        "CUDA out of memory. Tried to allocate 10.00 GiB. GPU 0 has a total capacity of "
        f"{gpu.total_bytes / GIB:.2f} GiB of which {free / GIB:.2f} GiB is free. "
        f"Including non-PyTorch memory, this process has {in_use:.2f} GiB memory in use. "
        "Of the allocated memory 70.00 GiB is allocated by PyTorch, and 0 bytes is reserved by PyTorch but "
        "unallocated."
    )


def four_cards():
    import torch

    kept = [torch.empty((n + 1) * 2**30, dtype=torch.uint8, device=f"cuda:{n}") for n in range(4)]
    copied = torch.arange(4).to("cuda:1").to("cuda:3")
    devices = [tensor.device.index for tensor in kept]
    used = [total - free for free, total in (torch.cuda.mem_get_info(n) for n in range(4))]
    return [torch.cuda.device_count(), devices, used, copied.tolist(), copied.device.index]


def test_cards_of_one_process_are_counted_apart(stand_in):
    context = find_gpu("L4").context_bytes

    count, devices, used, copied, copied_to = stand_in(four_cards, gpu="L4", count=4)

    assert (count, devices) == (4, [0, 1, 2, 3])
    # the copied numbers take one small segment of 2 MiB on either card
    assert used == [
        context + n * GIB + small * MIB for n, small in zip((1, 2, 3, 4), (0, 2, 0, 2), strict=True)
    ]
    assert (copied, copied_to) == ([0, 1, 2, 3], 3)


def test_every_card_of_the_catalogue_has_figures_of_its_own_name():
    cards = load_gpus().values()

    names = {gpu.properties.name for gpu in cards}

    assert len(names) == len(cards) > 10
