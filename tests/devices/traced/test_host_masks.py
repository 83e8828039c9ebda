"""Masks of unknown values that were copied to the host: what is selected there has its largest size."""

import pytest
import torch

import pytest_membudget

MIB = 2**20


def unknown(*shape):
    return torch.randn(*shape, device="cuda")


def shapes_of(value):
    if isinstance(value, (list, tuple)):
        return [shapes_of(one) for one in value]
    return list(value.shape)


def here(body, line):
    return f"test_host_masks.py:{body.__code__.co_firstlineno + line}"


#: Of a mask of 8 x 50 in ``selected``: as many elements as it has, or whole rows.
WAYS = {
    "index": [400],
    "index on the card": [400],
    "rows": [8, 50],
    "index of rows": 8 * [[50]],
    "masked_select": [400],
    "nonzero": [400, 2],
    "nonzero as a tuple": [[400], [400]],
    "where": [[400], [400]],
    "argwhere": [400, 2],
    "to": [400],
    "to without waiting": [400],
    "to another type": [400],
    "copy_": [400],
    "copy_ to pinned memory": [400],
    "back on the card": [400],
    "not": [400],
    "and": [400],
    "or": [400],
    "logical_and": [400],
    "logical_not": [400],
    "in place": [400],
    "compared": [400],
    "cat": [400],
    "clone": [400],
    "as bytes": [400],
    "as numbers": [400, 2],
    "of numbers": [400],
}


def selected(how, told):
    x = unknown(8, 50)
    mask = (x > 0).cpu()
    numbers = torch.arange(400).view(8, 50)
    ways = {
        "index": lambda: numbers[mask],
        "index on the card": lambda: x[mask],
        "rows": lambda: numbers[mask.any(1)],
        "index of rows": lambda: [row[selects] for row, selects in zip(numbers, mask, strict=True)],
        "masked_select": lambda: numbers.masked_select(mask),
        "nonzero": lambda: mask.nonzero(),
        "nonzero as a tuple": lambda: torch.nonzero(mask, as_tuple=True),
        "where": lambda: torch.where(mask),
        "argwhere": lambda: torch.argwhere(mask),
        "to": lambda: numbers[(x > 0).to("cpu")],
        "to without waiting": lambda: numbers[(x > 0).to("cpu", non_blocking=True)],
        "to another type": lambda: numbers[(x > 0).to("cpu", torch.uint8)],
        "copy_": lambda: numbers[torch.empty(8, 50, dtype=torch.bool).copy_(x > 0)],
        "copy_ to pinned memory": lambda: numbers[
            torch.empty(8, 50, dtype=torch.bool, pin_memory=True).copy_(x > 0)
        ],
        "back on the card": lambda: x[mask.cuda()],
        "not": lambda: numbers[~mask],
        "and": lambda: numbers[mask & (numbers >= 0)],
        "or": lambda: numbers[mask | (numbers < 0)],
        "logical_and": lambda: numbers[torch.logical_and(mask, numbers >= 0)],
        "logical_not": lambda: numbers[torch.logical_not(mask)],
        "in place": lambda: numbers[torch.zeros(8, 50, dtype=torch.bool).logical_or_(mask)],
        "compared": lambda: numbers[mask == (numbers < 0)],
        "cat": lambda: numbers[torch.cat([mask[:4], mask[4:]])],
        "clone": lambda: numbers[mask.clone()],
        "as bytes": lambda: numbers[mask.byte()],
        "as numbers": lambda: mask.long().nonzero(),
        "of numbers": lambda: numbers[x.cpu() < 0],
    }
    with pytest_membudget.assume(**told) if told else torch.enable_grad():
        return shapes_of(ways[how]())


def sizes_in(assumptions):
    """The reads of the numbers that a mask was made of are another matter."""
    return [text for text in assumptions if "takes sizes" in text]


@pytest.mark.parametrize("how", WAYS)
def test_what_a_mask_on_the_host_selects_is_the_largest_that_it_can_be(trace, how):
    traced = trace(selected, how, {})

    assert traced.value == WAYS[how]
    (text,) = sizes_in(traced.report.assumptions)
    assert "true everywhere, the worst case" in text
    assert len(traced.report.assumptions) == 1 or how == "of numbers"


@pytest.mark.parametrize(
    ("how", "shape"),
    [("index", [100]), ("index on the card", [100]), ("rows", [2, 50]), ("masked_select", [100]),
     ("nonzero", [100, 2]), ("not", [100]), ("in place", [100]), ("of numbers", [100])],
)  # fmt: skip
def test_its_size_can_be_assumed(trace, how, shape):
    traced = trace(selected, how, {"true_fraction": 0.25})

    assert traced.value == shape
    assert "true in 0.25 of it, by assume()" in sizes_in(traced.report.assumptions)[0]


def listed():
    x = unknown(10)
    mask = (x > 0).cpu()
    for _ in range(3):
        x[mask]
    torch.arange(10)[mask]


def test_the_line_that_selects_is_listed_as_on_the_card_and_not_the_copy(trace):
    takes = "takes sizes from unknown data with aten.nonzero.default"
    worst = "taken to be true everywhere, the worst case (pytest_membudget.assume(true_fraction=...) changes that)"  # fmt: skip # noqa: E501

    assert trace(listed).report.assumptions == (
        f"{here(listed, 4)} {takes} (3 times): {worst}",
        f"{here(listed, 5)} {takes} (once): {worst}",
    )


def decided():
    x, numbers = unknown(8, 50), torch.arange(400).view(8, 50)
    mask = (x > 0).cpu()
    made = torch.ones(8, 50, dtype=torch.bool, device="cuda").cpu()
    made[2:] = False
    written = mask.clone().fill_(False)
    return [
        len(numbers[one])
        for one in (
            mask & (numbers < 0),
            torch.logical_or(mask, numbers >= 0),
            torch.isnan(x).cpu(),
            torch.isnan(x.cpu()),
            made,
            written,
        )
    ]


def test_what_is_known_of_a_mask_on_the_host_decides(trace):
    """Nothing is both unknown and False; no healthy run has a NaN; real masks stay real."""
    traced = trace(decided)

    assert traced.value == [0, 400, 0, 0, 100, 0]
    assert not sizes_in(traced.report.assumptions)


def counted(told):
    mask = (unknown(8, 50) > 0).cpu()
    with pytest_membudget.assume(true_fraction=told):
        rows = mask.sum(1)
        return [
            int(mask.sum()),
            int(torch.count_nonzero(mask)),
            len(torch.empty(mask.sum().item())),
            rows.tolist(),
            rows.to(torch.int32).tolist(),
            [len(part) for part in torch.arange(400).view(8, 50)[mask].split(rows.tolist())],
        ]


@pytest.mark.parametrize(("told", "each"), [(1.0, 50), (0.5, 25)])
def test_a_count_on_the_host_is_that_of_the_elements_selected(trace, told, each):
    total, rows = 8 * each, 8 * [each]

    assert trace(counted, told).value == [total, total, total, rows, rows, rows]


def counts_copied(told):
    mask = unknown(8, 50) > 0
    with pytest_membudget.assume(true_fraction=told):
        counts = mask.sum(1)
        return [
            counts.cpu().tolist(),
            counts.to("cpu", torch.int32).tolist(),
            counts.int().tolist(),
            counts.clone().cpu().numpy().tolist(),
            [
                len(part)
                for part in torch.zeros(8 * int(50 * told), device="cuda").split(counts.cpu().tolist())
            ],
            int(counts.max()),
            int(counts.cpu().max()),
            int(counts.sum()),
        ]


@pytest.mark.parametrize(("told", "each"), [(1.0, 50), (0.5, 25)])
def test_counts_stay_counts_where_they_are_copied(trace, told, each):
    rows = 8 * [each]

    assert trace(counts_copied, told).value == [rows, rows, rows, rows, rows, each, each, 8 * each]


def flags():
    x = unknown(8, 50)
    mask = (x > 0).cpu()
    return [
        bool(mask.any()),
        mask.all().item(),
        bool((~mask).any()),
        bool(mask[0, 0]),
        (x > 0).any().cpu().item(),
        bool(mask.sum() > 0),
        bool(torch.isnan(x).cpu().any()),
        bool(torch.isfinite(x.cpu()).all()),
        torch.equal(mask, ~mask),
        torch.allclose(x.cpu(), torch.zeros(8, 50)),
    ]


def test_a_flag_read_on_the_host_is_answered_as_on_the_card(trace):
    """False, but what a healthy run finds; and unknown tensors that are compared are taken to be equal."""
    assert trace(flags).value == [False, False, False, False, False, False, False, True, True, True]


def loops_while_some_are_left():
    x = unknown(8)
    while (x > 0).cpu().any() or (x > 0).cpu().sum() > 0:
        x = x - 1


def test_a_loop_until_none_are_left_ends(trace):
    (line,) = trace(loops_while_some_are_left).report.assumptions

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
    assert [text.split(" ", 1)[0] for text in traced.report.assumptions] == [
        here(read_whole, line) for line in (4, 5, 6, 7)
    ]
    assert all(f"taken to be {told}, by assume()" in text for text in traced.report.assumptions)


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
    last = [row[-1] for row in kept]
    return [lengths.tolist(), len(last)]


def test_completions_that_are_cut_on_the_host_have_their_full_length(trace):
    assert trace(completions).value == [[16, 16, 16, 16], 4]


def memory(told):
    x = unknown(MIB)
    with pytest_membudget.assume(true_fraction=told):
        mask = (x > 0).cpu()
        return len(x[mask])


@pytest.mark.parametrize(("told", "count"), [(1.0, MIB), (0.25, MIB // 4)])
def test_what_is_selected_on_the_card_takes_as_much_memory(trace, told, count):
    """4 MiB of numbers; the mask's places come from the host: an int64 and a number for each selected."""
    traced = trace(memory, told)

    assert traced.value == count
    assert traced.allocated == 4 * MIB + max(MIB, (8 + 4) * count)


def learned(mode):
    hidden = torch.randn(8, 64, 32, device="cuda", requires_grad=True)
    with torch.inference_mode(mode == "inference"), pytest_membudget.assume(true_fraction=0.25):
        mask = (unknown(8, 64) > 0).cpu()
        chosen = hidden[mask]
        if mode == "backward":
            chosen.square().mean().backward()
            return [shapes_of(chosen), shapes_of(hidden.grad)]
        return [shapes_of(chosen)]


@pytest.mark.parametrize(
    ("mode", "shapes"), [("inference", [[128, 32]]), ("backward", [[128, 32], [8, 64, 32]])]
)
def test_backward_and_inference_select_as_much(trace, mode, shapes):
    assert trace(learned, mode).value == shapes


def of_many():
    x = unknown(4 * MIB)
    mask = (x > 0).cpu()
    return [len(x[mask]), len(torch.zeros(4 * MIB)[~mask]), int(mask.sum()), bool(mask.any())]


def test_a_mask_of_many_elements_is_followed_too(trace):
    assert trace(of_many).value == [4 * MIB, 4 * MIB, 4 * MIB, False]


def routed():
    chosen = unknown(8, 4).topk(2, dim=1).indices.cpu()
    return [
        [len((chosen == expert).nonzero()) for expert in range(4)],
        chosen.flatten().bincount(minlength=4).tolist(),
    ]


def test_a_choice_that_is_copied_routes_as_on_the_card(trace):
    """8 rows choose 2 of 4 each: all the first two, but for one row that chooses the others."""
    assert trace(routed).value == [[7, 7, 1, 1], [7, 7, 1, 1]]


def without_bound(how):
    numbers = unknown(10).long().cpu()
    ways = {
        "bincount": lambda: torch.bincount(numbers),
        "repeat_interleave": lambda: torch.zeros(10).repeat_interleave(numbers),
    }
    try:
        return shapes_of(ways[how]())
    except Exception as error:
        return type(error).__name__


@pytest.mark.parametrize("how", ["bincount", "repeat_interleave"])
def test_what_has_no_worst_case_is_refused_on_the_host_too(trace, how):
    assert trace(without_bound, how).value == "NotAvailable"


def of_numbers(how):
    x = unknown(8, 50).cpu()
    ways = {
        "unique": lambda: x.unique(),
        "unique with all": lambda: x.unique(return_inverse=True, return_counts=True),
        "unique rows": lambda: x.unique(dim=0),
        "unique_consecutive": lambda: x.unique_consecutive(),
        "bincount": lambda: x.long().flatten().bincount(minlength=7),
        "split": lambda: torch.zeros(400).split(x.unique(return_counts=True)[1].tolist())[:1],
        "repeat_interleave": lambda: x.long()[0].repeat_interleave(x.long()[0], output_size=60),
    }
    return shapes_of(ways[how]())


@pytest.mark.parametrize(
    ("how", "shapes"),
    [
        ("unique", [400]),
        ("unique with all", [[400], [8, 50], [400]]),
        ("unique rows", [8, 50]),
        ("unique_consecutive", [400]),
        ("bincount", [7]),
        ("split", [[1]]),
        ("repeat_interleave", [60]),
    ],
)
def test_sizes_from_numbers_on_the_host_are_those_of_the_card(trace, how, shapes):
    assert trace(of_numbers, how).value == shapes
