"""What only the stand-in has of masks on the host: real memory, which other code may read and write."""

import os

import pytest

import pytest_membudget

MIB = 1 << 20


def followed():
    """Host tensors and values on the cards, followed from here on."""
    import torch

    from pytest_membudget.devices.stand_in.host.tensors import HostTensors
    from pytest_membudget.devices.stand_in.values.values import Values
    from pytest_membudget.tracking.running_code.source import users_source

    values = Values(users_source())
    host = HostTensors(values.following)
    host.install()
    values.install()
    torch.cuda.init()
    values.begin()
    return values, host


def listed(values, host):
    root = os.path.dirname(__file__)
    return [one.text for one in (*values.caveats(root), *host.caveats(root))]


def here(body, line):
    return f"test_masks_on_host.py:{body.__code__.co_firstlineno + line}"


def in_memory_of_numpy():
    import numpy
    import torch

    found = followed()
    small = torch.from_numpy(numpy.ones((8, 50), dtype=bool))
    small.copy_(torch.randn(8, 50, device="cuda") > 0)
    large = torch.from_numpy(numpy.ones(2 * MIB, dtype=bool))
    large.copy_(torch.randn(2 * MIB, device="cuda") > 0)
    return {"small": int(small.sum()), "listed": listed(*found)}


def test_a_copy_to_memory_that_cannot_be_followed_is_listed_as_a_read(stand_in):
    found = stand_in(in_memory_of_numpy)

    assert found["small"] == 0
    assert found["listed"] == [
        f"{here(in_memory_of_numpy, 6)} reads a bool value (once): taken to be False",
        f"{here(in_memory_of_numpy, 8)} reads a bool value (once): "
        "taken to be what the memory it was copied to held",
    ]


def given_a_result():
    import torch

    found = followed()
    mask = (torch.randn(8, 50, device="cuda") > 0).cpu()
    places = torch.nonzero(mask, out=torch.empty(0, dtype=torch.long))
    chosen = torch.masked_select(torch.arange(400).view(8, 50), mask, out=torch.empty(0, dtype=torch.long))
    return {"shapes": [list(places.shape), list(chosen.shape)], "listed": len(listed(*found))}


def test_a_result_that_is_given_is_made_as_large(stand_in):
    assert stand_in(given_a_result) == {"shapes": [[400, 2], [400]], "listed": 2}


def used_again():
    import torch

    found = followed()
    selected = []
    for value in (True, False):
        mask = (torch.randn(8, 50, device="cuda") > 0).cpu()
        address = mask.data_ptr()
        counts = mask.sum(1)
        del mask, counts
        real = torch.full((8, 50), value)
        selected += [real.data_ptr() == address, len(torch.arange(400).view(8, 50)[real]), int(real.sum())]
    return {"selected": selected, "listed": listed(*found)}


def test_memory_that_held_a_mask_holds_real_data_again(stand_in):
    found = stand_in(used_again)

    assert found["selected"] == [True, 400, 400, True, 0, 0]
    assert found["listed"] == []


def shown():
    import torch

    found = followed()
    mask = (torch.randn(8, device="cuda") > 0).cpu()
    numbers = torch.randn(8, device="cuda").cpu()
    return {"text": str(mask) + str(numbers), "listed": listed(*found)}


def test_printing_a_mask_is_no_read(stand_in):
    found = stand_in(shown)

    assert found["text"].startswith("tensor([False, False,")
    assert found["listed"] == [f"{here(shown, 5)} reads a float32 value (once): taken to be 1.0"]


def of_large_host_tensors(told):
    import torch

    found = followed()
    noise = torch.randn(MIB)
    with pytest_membudget.assume(true_fraction=told):
        return {"selected": len(noise[noise > 0]), "listed": listed(*found)}


@pytest.mark.parametrize(("told", "taken"), [(1.0, "true in 1 of it"), (0.5, "true in 0.5 of it")])
def test_a_mask_of_a_large_host_tensor_that_was_not_computed_is_unknown(stand_in, told, taken):
    found = stand_in(of_large_host_tensors, told)

    assert found["selected"] == told * MIB
    assert [taken in line for line in found["listed"]] == [True]


def read_numbers():
    import torch

    found = followed()
    mask = (torch.randn(8, 50, device="cuda") > 0).cpu()
    one, other = (torch.randn(8, 50, device="cuda").cpu() for _ in range(2))
    return {
        "of the mask": [mask.float().mean().item(), mask.int().numpy().tolist()[0][0]],
        "copied": [one.sum().item(), bool((one - other).abs().max() < 1e-3), one.tolist()[0][0]],
        "listed": listed(*found),
    }


def test_numbers_that_were_copied_hold_what_is_listed_of_the_copy(stand_in):
    """And numbers made of a mask are listed where they are read."""
    found = stand_in(read_numbers)

    assert found["of the mask"] == [1.0, 1]
    assert found["copied"] == [400.0, True, 1.0]
    assert found["listed"] == [
        f"{here(read_numbers, 5)} reads a float32 value (2 times): taken to be 1.0",
        f"{here(read_numbers, 7)} reads a float32 value (once): taken to be 1.0",
        f"{here(read_numbers, 7)} reads an int32 value (once): taken to be 1",
    ]


def given_away(how):
    import copy

    import numpy
    import torch
    from torch.nn.utils import rnn

    found = followed()
    mask = (torch.randn(4, 50, device="cuda") > 0).cpu()
    numbers = torch.arange(200).view(4, 50)
    ways = {
        "shared memory": lambda: len(numbers[mask.share_memory_()]),
        "DLPack": lambda: int(numpy.from_dlpack(mask.int()).sum()),
        "tensor_split": lambda: [len(part) for part in torch.tensor_split(numbers[0], mask.sum(1))],
        "packed": lambda: len(
            rnn.pack_padded_sequence(torch.zeros(4, 50, 2), mask.sum(1), batch_first=True).data
        ),
        "copied": lambda: len(numbers[copy.deepcopy(mask)]),
    }
    value = ways[how]()
    return {"value": value, "listed": [line.split(" ", 1)[1] for line in listed(*found)]}


@pytest.mark.parametrize(
    ("how", "value", "reads"),
    [
        ("shared memory", 0, "reads a bool value (once): taken to be False"),
        ("DLPack", 200, "reads an int32 value (once): taken to be 1"),
        ("tensor_split", [50, 0, 0, 0, 0], "reads an int64 value (once): taken to be 50"),
        ("packed", 200, "reads an int64 value (once): taken to be 50"),
    ],
)
def test_what_other_code_reads_of_a_mask_is_listed(stand_in, how, value, reads):
    assert stand_in(given_away, how) == {"value": value, "listed": [reads]}


def test_a_deep_copy_is_followed(stand_in):
    assert stand_in(given_away, "copied")["value"] == 200


def resident_bytes():
    with open("/proc/self/status", encoding="ascii") as file:
        fields = dict(line.split(":", 1) for line in file)
    return sum(int(fields[name].split()[0]) * 1024 for name in ("RssAnon", "RssShmem"))


def of_a_large_mask():
    import torch

    followed()
    x = torch.empty(256 * MIB, device="cuda")
    before = resident_bytes()
    mask = (x > 0).cpu()
    return [len(mask.nonzero()), len(x[~mask]), resident_bytes() - before]


def test_what_a_large_mask_selects_takes_no_pages(stand_in):
    """A mask of 256 MiB, and 2 GiB of places."""
    places, selected, grown = stand_in(of_a_large_mask, unlimited=True)

    assert places == selected == 256 * MIB
    assert grown < 200 * MIB


def slow_operators():
    import torch

    _, host = followed()

    def are_replaced():
        return not host._hollow._waiting

    torch.randn(8, device="cuda").sum().cpu().item()
    torch.arange(8, device="cuda").cpu().tolist()
    (torch.arange(8, device="cuda") > 3).cpu()
    before = are_replaced()
    (torch.randn(8, device="cuda") > 0).cpu()
    return [before, are_replaced()]


def test_operators_of_the_host_are_replaced_when_there_is_a_mask_that_nobody_knows(stand_in):
    """One number, and what is known, cost nothing."""
    assert stand_in(slow_operators) == [False, True]
