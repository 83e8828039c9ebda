"""Masks of unknown values that were copied to the host: what is selected there has its largest size."""

import copy

import numpy
import pytest
import torch
from torch.nn.utils import rnn

import pytest_membudget
from tests.devices.stand_in.host.test_host_tensors import resident_bytes
from tests.devices.stand_in.unknown_data import here, shapes_of, unknown

MIB = 2**20


def empty(*shape, **options):
    return torch.empty(*shape, dtype=torch.bool, **options)


def out():
    return torch.empty(0, dtype=torch.long)


#: What is selected of 8 x 50 numbers, by the mask ``m`` of the host of which ``x`` is on the card, if all is
#: true; and what is selected if a quarter is, where that was seen.
WAYS = {
    "index": (lambda n, m, x: n[m], [400], [100]),
    "index on the card": (lambda n, m, x: x[m], [400], [100]),
    "rows": (lambda n, m, x: n[m.any(1)], [8, 50], [2, 50]),
    "index of rows": (lambda n, m, x: [row[by] for row, by in zip(n, m, strict=True)], 8 * [[50]], None),
    "masked_select": (lambda n, m, x: n.masked_select(m), [400], [100]),
    "masked_select into a given result": (lambda n, m, x: torch.masked_select(n, m, out=out()), [400], None),
    "nonzero": (lambda n, m, x: m.nonzero(), [400, 2], [100, 2]),
    "nonzero into a given result": (lambda n, m, x: torch.nonzero(m, out=out()), [400, 2], None),
    "nonzero as a tuple": (lambda n, m, x: torch.nonzero(m, as_tuple=True), [[400], [400]], None),
    "where": (lambda n, m, x: torch.where(m), [[400], [400]], None),
    "argwhere": (lambda n, m, x: torch.argwhere(m), [400, 2], None),
    "to": (lambda n, m, x: n[(x > 0).to("cpu")], [400], None),
    "to without waiting": (lambda n, m, x: n[(x > 0).to("cpu", non_blocking=True)], [400], None),
    "to another type": (lambda n, m, x: n[(x > 0).to("cpu", torch.uint8)], [400], None),
    "copy_": (lambda n, m, x: n[empty(8, 50).copy_(x > 0)], [400], None),
    "copy_ to pinned memory": (lambda n, m, x: n[empty(8, 50, pin_memory=True).copy_(x > 0)], [400], None),
    "back on the card": (lambda n, m, x: x[m.cuda()], [400], None),
    "not": (lambda n, m, x: n[~m], [400], [100]),
    "and": (lambda n, m, x: n[m & (n >= 0)], [400], None),
    "or": (lambda n, m, x: n[m | (n < 0)], [400], None),
    "logical_and": (lambda n, m, x: n[torch.logical_and(m, n >= 0)], [400], None),
    "logical_not": (lambda n, m, x: n[torch.logical_not(m)], [400], None),
    "in place": (lambda n, m, x: n[torch.zeros_like(m).logical_or_(m)], [400], [100]),
    "compared": (lambda n, m, x: n[m == (n < 0)], [400], None),
    "cat": (lambda n, m, x: n[torch.cat([m[:4], m[4:]])], [400], None),
    "clone": (lambda n, m, x: n[m.clone()], [400], None),
    "deep copy": (lambda n, m, x: n[copy.deepcopy(m)], [400], None),
    "as bytes": (lambda n, m, x: n[m.byte()], [400], None),
    "as numbers": (lambda n, m, x: m.long().nonzero(), [400, 2], None),
    "of numbers": (lambda n, m, x: n[x.cpu() < 0], [400], [100]),
}


def selected(how, told):
    x = unknown(8, 50)
    mask, numbers = (x > 0).cpu(), torch.arange(400).view(8, 50)
    with pytest_membudget.assume(true_fraction=told) if told else torch.enable_grad():
        return shapes_of(WAYS[how][0](numbers, mask, x))


def sizes_in(assumptions):
    """The reads of the numbers that a mask was made of are another matter."""
    return [text for text in assumptions if "takes sizes" in text]


@pytest.mark.parametrize("how", WAYS)
def test_what_a_mask_on_the_host_selects_is_the_largest_that_it_can_be(trace, how):
    traced = trace(selected, how, None)

    assert traced.value == WAYS[how][1]
    (text,) = sizes_in(traced.assumptions)
    assert "true everywhere, the worst case" in text
    assert len(traced.assumptions) == 1 or how == "of numbers"


@pytest.mark.parametrize("how", [how for how, (_, _, shape) in WAYS.items() if shape])
def test_its_size_can_be_assumed(trace, how):
    traced = trace(selected, how, 0.25)

    assert traced.value == WAYS[how][2]
    assert "true in 0.25 of it, by assume()" in sizes_in(traced.assumptions)[0]


def listed():
    x = unknown(10)
    mask = (x > 0).cpu()
    for _ in range(3):
        x[mask]
    torch.arange(10)[mask]


def test_the_line_that_selects_is_listed_as_on_the_card_and_not_the_copy(trace):
    takes = "takes sizes from unknown data with aten.nonzero.default"
    changes = "(pytest_membudget.assume(true_fraction=...) changes that)"
    worst = f"taken to be true everywhere, the worst case {changes}"

    assert trace(listed).assumptions == (
        f"{here(listed, 4)} {takes} (3 times): {worst}",
        f"{here(listed, 5)} {takes} (once): {worst}",
    )


def decided():
    x, numbers = unknown(8, 50), torch.arange(400).view(8, 50)
    mask = (x > 0).cpu()
    made = torch.ones(8, 50, dtype=torch.bool, device="cuda").cpu()
    made[2:] = False
    masks = [
        mask & (numbers < 0), torch.logical_or(mask, numbers >= 0), torch.isnan(x).cpu(),
        torch.isnan(x.cpu()), made, mask.clone().fill_(False),
    ]  # fmt: skip
    return [len(numbers[one]) for one in masks]


def test_what_is_known_of_a_mask_on_the_host_decides(trace):
    """Nothing is both unknown and False; no healthy run has a NaN; real masks stay real."""
    traced = trace(decided)

    assert traced.value == [0, 400, 0, 0, 100, 0]
    assert not sizes_in(traced.assumptions)


def counted(told):
    on_card = unknown(8, 50) > 0
    mask = on_card.cpu()
    with pytest_membudget.assume(true_fraction=told):
        rows, counts = mask.sum(1), on_card.sum(1)
        some = torch.arange(400).view(8, 50)[mask]
        totals = [mask.sum(), mask.count_nonzero(), len(torch.empty(mask.sum().item())), counts.sum()]
        lists = [rows, rows.int(), counts.cpu(), counts.to("cpu", torch.int32), counts.int(), counts.clone()]
        return [
            [int(one) for one in totals],
            [*(one.tolist() for one in lists), [len(part) for part in some.split(rows.tolist())]],
            [int(counts.max()), int(counts.cpu().max()), int(counts.cpu().numpy()[0])],
        ]


@pytest.mark.parametrize(("told", "each"), [(1.0, 50), (0.5, 25)])
def test_a_count_on_the_host_and_one_that_is_copied_are_those_of_the_elements_selected(trace, told, each):
    assert trace(counted, told).value == [4 * [8 * each], 7 * [8 * [each]], 3 * [each]]


def flags():
    x = unknown(8, 50)
    mask = (x > 0).cpu()
    return [
        bool(mask.any()), mask.all().item(), bool((~mask).any()), bool(mask[0, 0]),
        (x > 0).any().cpu().item(), bool(mask.sum() > 0), bool(torch.isnan(x).cpu().any()),
        bool(torch.isfinite(x.cpu()).all()), torch.equal(mask, ~mask),
        torch.allclose(x.cpu(), torch.zeros(8, 50)),
    ]  # fmt: skip


def test_a_flag_read_on_the_host_is_answered_as_on_the_card(trace):
    """False, but what a healthy run finds; and unknown tensors that are compared are taken to be equal."""
    assert trace(flags).value == [False, False, False, False, False, False, False, True, True, True]


def loops_while_some_are_left():
    x = unknown(8)
    while (x > 0).cpu().any() or (x > 0).cpu().sum() > 0:
        x = x - 1


def test_a_loop_until_none_are_left_ends(trace):
    (line,) = trace(loops_while_some_are_left).assumptions

    assert line.endswith("reads a bool value (2 times): taken to be False")


def read_whole(told):
    mask = (unknown(8) > 0).cpu()
    with pytest_membudget.assume(value=told):
        return [
            mask.tolist(),
            (~mask).numpy().tolist(),
            [number for number, flag in zip(range(8), mask, strict=True) if flag],
            (unknown(8) > 0).tolist(),
        ]


@pytest.mark.parametrize("told", [False, True])
def test_a_mask_that_is_read_is_a_list_of_flags(trace, told):
    """Outside of torch nothing is followed: each place is listed as a read."""
    traced = trace(read_whole, told)

    chosen = list(range(8)) if told else []
    assert traced.value == [8 * [told], 8 * [told], chosen, 8 * [told]]
    places = [text.split(" ", 1)[0] for text in traced.assumptions]
    assert places == [here(read_whole, line) for line in (4, 5, 6, 7)]
    assert all(f"taken to be {told}, by assume()" in text for text in traced.assumptions)


def completions():
    """How trl's GRPO trainer takes generated tokens apart (``_generate_single_turn``)."""
    ids = torch.randn(4, 16, 2000, device="cuda").softmax(-1).argmax(-1)
    is_end = ids == 7
    end = torch.full((4,), 16, dtype=torch.long, device="cuda")
    end[is_end.any(dim=1)] = is_end.int().argmax(dim=1)[is_end.any(dim=1)]
    positions = torch.arange(16, device="cuda").expand(4, -1)
    mask = (positions <= end.unsqueeze(1)).int()
    kept = [row[selects].tolist() for row, selects in zip(ids.cpu(), mask.bool().cpu(), strict=True)]
    lengths = torch.tensor([len(row) for row in kept], device="cuda")
    return [lengths.tolist(), len([row[-1] for row in kept])]


def test_completions_that_are_cut_on_the_host_have_their_full_length(trace):
    assert trace(completions).value == [[16, 16, 16, 16], 4]


def memory(told):
    x = unknown(MIB)
    with pytest_membudget.assume(true_fraction=told):
        return len(x[(x > 0).cpu()])


@pytest.mark.parametrize(("told", "count"), [(1.0, MIB), (0.25, MIB // 4)])
def test_what_is_selected_on_the_card_takes_as_much_memory(trace, told, count):
    """4 MiB of numbers; the mask's places come from the host: an int64 and a number for each selected."""
    traced = trace(memory, told)

    assert traced.value == count
    assert traced.allocated == 4 * MIB + max(MIB, (8 + 4) * count)


def learned(mode):
    hidden = torch.randn(8, 64, 32, device="cuda", requires_grad=True)
    with torch.inference_mode(mode == "inference"), pytest_membudget.assume(true_fraction=0.25):
        chosen = hidden[(unknown(8, 64) > 0).cpu()]
        if mode == "backward":
            chosen.square().mean().backward()
        return shapes_of([chosen, hidden])


@pytest.mark.parametrize("mode", ["inference", "backward"])
def test_backward_and_inference_select_as_much(trace, mode):
    assert trace(learned, mode).value == [[128, 32], [8, 64, 32]]


def of_a_large_mask():
    x = torch.empty(256 * MIB, device="cuda")
    before = resident_bytes()
    mask = (x > 0).cpu()
    found = [len(mask.nonzero()), len(x[~mask]), int(mask.sum())]
    return [*found, bool(mask.any()), resident_bytes() - before]


def test_what_a_large_mask_selects_takes_no_pages(trace):
    """A mask of 256 MiB, and 2 GiB of places."""
    *found, grown = trace(of_a_large_mask).value

    assert found == [*3 * [256 * MIB], False]
    assert grown < 200 * MIB


def routed():
    chosen = unknown(8, 4).topk(2, dim=1).indices.cpu()
    return [
        [len((chosen == expert).nonzero()) for expert in range(4)],
        chosen.flatten().bincount(minlength=4).tolist(),
    ]


def test_a_choice_that_is_copied_routes_as_on_the_card(trace):
    """8 rows choose 2 of 4 each: all the first two, but for one row that chooses the others."""
    assert trace(routed).value == [[7, 7, 1, 1], [7, 7, 1, 1]]


#: Sizes from numbers of the host, as from the card's; what has no worst case is refused there too.
NUMBERS = {
    "unique": (lambda x: x.unique(), [400]),
    "unique with all": (
        lambda x: x.unique(return_inverse=True, return_counts=True), [[400], [8, 50], [400]]
    ),
    "unique rows": (lambda x: x.unique(dim=0), [8, 50]),
    "unique_consecutive": (lambda x: x.unique_consecutive(), [400]),
    "bincount": (lambda x: x.long().flatten().bincount(minlength=7), [7]),
    "split": (lambda x: torch.zeros(400).split(x.unique(return_counts=True)[1].tolist())[:1], [[1]]),
    "repeat_interleave": (lambda x: x.long()[0].repeat_interleave(x.long()[0], output_size=60), [60]),
    "bincount of any": (lambda x: torch.bincount(x.long()[0]), "NotAvailable"),
    "repeats of any": (lambda x: torch.zeros(50).repeat_interleave(x.long()[0]), "NotAvailable"),
}  # fmt: skip


def of_numbers(how):
    try:
        return shapes_of(NUMBERS[how][0](unknown(8, 50).cpu()))
    except Exception as error:
        return type(error).__name__


@pytest.mark.parametrize("how", NUMBERS)
def test_sizes_from_numbers_on_the_host_are_those_of_the_card(trace, how):
    assert trace(of_numbers, how).value == NUMBERS[how][1]


# Real memory, which other code may read and write


def in_memory_of_numpy():
    small = torch.from_numpy(numpy.ones((8, 50), dtype=bool))
    small.copy_(torch.randn(8, 50, device="cuda") > 0)
    large = torch.from_numpy(numpy.ones(2 * MIB, dtype=bool))
    large.copy_(torch.randn(2 * MIB, device="cuda") > 0)
    return int(small.sum())


def test_a_copy_to_memory_that_cannot_be_followed_is_listed_as_a_read(trace):
    traced = trace(in_memory_of_numpy)

    assert traced.value == 0
    assert traced.assumptions == (
        f"{here(in_memory_of_numpy, 2)} reads a bool value (once): taken to be False",
        f"{here(in_memory_of_numpy, 4)} reads a bool value (once): "
        "taken to be what the memory it was copied to held",
    )


def used_again():
    selected = []
    for value in (True, False):
        mask = (torch.randn(8, 50, device="cuda") > 0).cpu()
        address = mask.data_ptr()
        counts = mask.sum(1)
        del mask, counts
        real = torch.full((8, 50), value)
        selected += [real.data_ptr() == address, len(torch.arange(400).view(8, 50)[real]), int(real.sum())]
    return selected


def test_memory_that_held_a_mask_holds_real_data_again(trace):
    traced = trace(used_again)

    assert traced.value == [True, 400, 400, True, 0, 0]
    assert not traced.assumptions


def shown():
    mask = (torch.randn(8, device="cuda") > 0).cpu()
    numbers = torch.randn(8, device="cuda").cpu()
    return str(mask) + str(numbers)


def test_printing_a_mask_is_no_read(trace):
    traced = trace(shown)

    assert traced.value.startswith("tensor([False, False,")
    assert traced.assumptions == (f"{here(shown, 2)} reads a float32 value (once): taken to be 1.0",)


def of_large_host_tensors(told):
    noise = torch.randn(MIB)
    with pytest_membudget.assume(true_fraction=told):
        return len(noise[noise > 0])


@pytest.mark.parametrize(("told", "taken"), [(1.0, "true in 1 of it"), (0.5, "true in 0.5 of it")])
def test_a_mask_of_a_large_host_tensor_that_was_not_computed_is_unknown(trace, told, taken):
    traced = trace(of_large_host_tensors, told)

    assert traced.value == told * MIB
    assert [taken in line for line in traced.assumptions] == [True]


def read_numbers():
    mask = (torch.randn(8, 50, device="cuda") > 0).cpu()
    one, other = (torch.randn(8, 50, device="cuda").cpu() for _ in range(2))
    return [
        mask.float().mean().item(), mask.int().numpy().tolist()[0][0],
        one.sum().item(), bool((one - other).abs().max() < 1e-3), one.tolist()[0][0],
    ]  # fmt: skip


def test_numbers_that_were_copied_hold_what_is_listed_of_the_copy(trace):
    """And numbers made of a mask are listed where they are read."""
    traced = trace(read_numbers)

    assert traced.value == [1.0, 1, 400.0, True, 1.0]
    assert traced.assumptions == (
        f"{here(read_numbers, 2)} reads a float32 value (2 times): taken to be 1.0",
        f"{here(read_numbers, 4)} reads a float32 value (once): taken to be 1.0",
        f"{here(read_numbers, 4)} reads an int32 value (once): taken to be 1",
    )


#: What other code finds of a mask of 4 x 50, and how that is listed.
GIVEN_AWAY = {
    "shared memory": (
        lambda m, n: len(n[m.share_memory_()]), 0, "reads a bool value (once): taken to be False"
    ),
    "DLPack": (
        lambda m, n: int(numpy.from_dlpack(m.int()).sum()), 200, "reads an int32 value (once): taken to be 1"
    ),
    "tensor_split": (
        lambda m, n: [len(part) for part in torch.tensor_split(n[0], m.sum(1))], [50, 0, 0, 0, 0],
        "reads an int64 value (once): taken to be 50",
    ),
    "packed": (
        lambda m, n: len(rnn.pack_padded_sequence(torch.zeros(4, 50, 2), m.sum(1), batch_first=True).data),
        200, "reads an int64 value (once): taken to be 50",
    ),
}  # fmt: skip


def given_away(how):
    mask = (torch.randn(4, 50, device="cuda") > 0).cpu()
    return GIVEN_AWAY[how][0](mask, torch.arange(200).view(4, 50))


@pytest.mark.parametrize("how", GIVEN_AWAY)
def test_what_other_code_reads_of_a_mask_is_listed(trace, how):
    traced = trace(given_away, how)

    assert traced.value == GIVEN_AWAY[how][1]
    assert [line.split(" ", 1)[1] for line in traced.assumptions] == [GIVEN_AWAY[how][2]]
