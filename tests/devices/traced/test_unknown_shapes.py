"""Shapes that depend on data nobody knows: the worst case or what the test tells, each in the report."""

import pytest
import torch
from torch.nn import functional as F

import pytest_membudget
from pytest_membudget.devices.stand_in.values.refusals import refused

MIB = 2**20


def here(body, line):
    return f"test_unknown_shapes.py:{body.__code__.co_firstlineno + line}"


def unknown(*shape):
    return torch.randn(*shape, device="cuda")


def shapes_of(value):
    if isinstance(value, (list, tuple)):
        return [shapes_of(one) for one in value]
    return list(value.shape)


def selected(how, told):
    x = unknown(8, 50)
    mask = x > 0
    ways = {
        "mask": lambda: x[mask],
        "rows": lambda: x[mask.any(1)],
        "masked_select": lambda: x.masked_select(mask),
        "nonzero": lambda: mask.nonzero(),
        "nonzero of numbers": lambda: torch.nonzero(x, as_tuple=True),
        "where": lambda: torch.where(mask),
        "argwhere": lambda: torch.argwhere(x),
        "unique": lambda: torch.unique(x),
        "unique with all": lambda: x.unique(return_inverse=True, return_counts=True),
        "unique booleans": lambda: mask.unique(),
        "unique bytes": lambda: x.to(torch.int8).repeat(2, 1).unique(),
        "unique rows": lambda: x.unique(dim=0, return_inverse=True),
        "unique_consecutive": lambda: x.unique_consecutive(return_counts=True),
        "bincount": lambda: x.long().flatten().bincount(minlength=7),
    }
    with pytest_membudget.assume(**told) if told else torch.enable_grad():
        return shapes_of(ways[how]())


@pytest.mark.parametrize(
    ("how", "shapes"),
    [
        ("mask", [400]),
        ("rows", [8, 50]),
        ("masked_select", [400]),
        ("nonzero", [400, 2]),
        ("nonzero of numbers", [[400], [400]]),
        ("where", [[400], [400]]),
        ("argwhere", [400, 2]),
        ("unique", [400]),
        ("unique with all", [[400], [8, 50], [400]]),
        ("unique booleans", [2]),
        ("unique bytes", [256]),  # of 800
        ("unique rows", [[8, 50], [8]]),
        ("unique_consecutive", [[400], [400]]),
        ("bincount", [7]),
    ],
)
def test_an_unknown_size_is_the_largest_that_it_can_be(trace, how, shapes):
    traced = trace(selected, how, {})

    assert traced.value == shapes
    assert len(traced.report.assumptions) == 1


@pytest.mark.parametrize(
    ("how", "told", "shapes"),
    [
        ("mask", {"true_fraction": 0.25}, [100]),
        ("rows", {"true_fraction": 0.3}, [3, 50]),  # 2.4 rows: 3
        ("masked_select", {"true_fraction": 0}, [0]),
        ("where", {"true_fraction": 0.25}, [[100], [100]]),
        ("unique", {"distinct_fraction": 0.1}, [40]),
        ("unique rows", {"distinct_fraction": 0.5}, [[4, 50], [8]]),
        ("unique_consecutive", {"distinct_fraction": 0.5}, [[200], [200]]),
        ("bincount", {"bins": 12}, [12]),
    ],
)
def test_a_size_can_be_assumed(trace, how, told, shapes):
    traced = trace(selected, how, told)

    assert traced.value == shapes
    assert "by assume()" in traced.report.assumptions[0]


def listed():
    for _ in range(3):
        x = unknown(10)
        x[x > 0]
    with pytest_membudget.assume(true_fraction=0.5):
        x[x > 0]


def test_the_report_has_the_line_the_operator_and_what_to_write(trace):
    takes = "takes sizes from unknown data with aten.nonzero.default"
    assert trace(listed).report.assumptions == (
        f"{here(listed, 3)} {takes} (3 times): taken to be true everywhere, the worst case "
        "(pytest_membudget.assume(true_fraction=...) changes that)",
        f"{here(listed, 5)} {takes} (once): taken to be true in 0.5 of it, by assume()",
    )


def counted(told):
    x = unknown(8, 50)
    mask = x > 0
    with pytest_membudget.assume(true_fraction=told):
        count, rows = mask.sum(), mask.count_nonzero(dim=1)
        return [
            int(count) == len(x[mask]),
            len(torch.empty(int(count)).copy_(x[mask])),
            rows.tolist(),
            [len(part) for part in x[mask].split(rows.tolist())],
        ]


@pytest.mark.parametrize(("told", "each"), [(1.0, 50), (0.5, 25)])
def test_a_count_that_is_read_is_that_of_the_elements_selected(trace, told, each):
    assert trace(counted, told).value == [True, 8 * each, 8 * [each], 8 * [each]]


def loops_while_some_are_left():
    x = unknown(8)
    while (x > 0).sum() > 0:
        x = x - 1


def test_a_loop_until_none_are_left_ends(trace):
    """The count is for sizes; whether a condition holds is plausible, and False, as for any unknown data."""
    (line,) = trace(loops_while_some_are_left).report.assumptions
    assert line.endswith("reads a bool value (once): taken to be False")


def memory(told):
    x = unknown(MIB)
    with pytest_membudget.assume(true_fraction=told):
        return len(x[x > 0])


@pytest.mark.parametrize(("told", "count"), [(1.0, MIB), (0.25, MIB // 4)])
def test_what_is_selected_takes_as_much_memory(trace, told, count):
    """4 MiB of numbers, 1 MiB of mask, an int64 and a number for each selected."""
    traced = trace(memory, told)

    assert traced.value == count
    assert traced.allocated == 5 * MIB + (8 + 4) * count


def drawn(how):
    x = unknown(10)
    return len({"permutation": lambda: x[torch.randperm(10, device="cuda") < 4], "draws": lambda: x[torch.randint(5, (10,), device="cuda") < 4]}[how]())  # fmt: skip # noqa: E501


@pytest.mark.parametrize(
    ("how", "count", "taken"),
    [
        ("permutation", 4, "what its draws of random numbers are taken to give"),
        ("draws", 10, "the worst case"),
    ],
)
def test_a_permutation_has_a_known_count_and_single_draws_do_not(trace, how, count, taken):
    traced = trace(drawn, how)

    assert traced.value == count
    assert taken in traced.report.assumptions[0]


def without_bound(how, told):
    numbers = unknown(10).long()
    with pytest_membudget.assume(**told) if told else torch.enable_grad():
        try:
            return shapes_of(
                {
                    "repeat_interleave": lambda: unknown(10, 3).repeat_interleave(numbers, dim=0),
                    "bincount": lambda: torch.bincount(numbers),
                    "one_hot": lambda: F.one_hot(numbers),
                }[how]()
            )
        except Exception as error:
            return [type(error).__name__, str(refused())]


@pytest.mark.parametrize("how", ["repeat_interleave", "bincount", "one_hot"])
def test_what_has_no_worst_case_is_refused(trace, how):
    name, refused = trace(without_bound, how, {}).value

    assert name == "NotAvailable"
    assert how in refused
    assert f"test_unknown_shapes.py:{without_bound.__code__.co_firstlineno}" not in refused
    assert "test_unknown_shapes.py:" in refused


@pytest.mark.parametrize(
    ("how", "told", "shape"),
    [
        ("repeat_interleave", {"repeats": 2.5}, [25, 3]),
        ("bincount", {"bins": 6}, [6]),
        ("one_hot", {"bins": 6}, [10, 6]),
    ],
)
def test_a_result_without_a_bound_can_be_assumed(trace, how, told, shape):
    assert trace(without_bound, how, told).value == shape


def of_a_known_size():
    numbers = unknown(10).long()
    return shapes_of(
        [
            torch.nonzero_static(numbers, size=4),
            numbers.repeat_interleave(numbers, output_size=30),
            F.one_hot(numbers, 5),
            F.one_hot(torch.tensor([1, 4], device="cuda")),
        ]
    )


def test_sizes_that_are_given_are_no_assumptions(trace):
    traced = trace(of_a_known_size)

    assert traced.value == [[4, 1], [30], [10, 5], [2, 5]]
    assert not traced.report.assumptions


def one_hot_of_many():
    numbers = torch.zeros(2**17, dtype=torch.long, device="cuda")
    return shapes_of(F.one_hot(numbers, 16))


@pytest.mark.parametrize("mode", ["no_grad", "inference_mode"])
def test_one_hot_takes_its_result_alone(trace, mode):
    """1 MiB of numbers and 16 MiB of ones and zeros; comparing with each class first would take more."""
    assert trace(one_hot_in, mode).allocated == 17 * MIB


def one_hot_in(mode):
    with getattr(torch, mode)():
        return one_hot_of_many()


def split_by_a_tensor():
    x = torch.zeros(10, device="cuda")
    return [
        [len(part) for part in torch.tensor_split(x, torch.tensor([2, 5]))],
        [len(part) for part in x.tensor_split(torch.tensor(2))],
        [len(part) for part in x.tensor_split((1, 3))],
        shapes_of(x.view(5, 2).tensor_split(2, dim=1)),
    ]


def test_tensor_split_takes_a_tensor(trace):
    assert trace(split_by_a_tensor).value == [[2, 3, 5], [5, 5], [1, 2, 7], [[5, 1], [5, 1]]]


def reads():
    x = unknown(2)
    with pytest_membudget.assume(value=0.0), pytest_membudget.assume(value=True):
        return [
            x[0].item(),
            bool(x[0] > 0),
            int(x[0].long()),
            x.tolist(),
            torch.ones((), device="cuda").item(),
        ]


def test_reads_of_each_type_can_be_assumed_to_give_a_value(trace):
    traced = trace(reads)

    assert traced.value == [0.0, True, 1, [0.0, 0.0], 1.0]
    assert (
        f"{here(reads, 4)} reads a float32 value (once): taken to be 0.0, by assume()"
        in traced.report.assumptions
    )
