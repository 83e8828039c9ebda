"""Shapes that depend on data nobody knows: the worst case or what the test tells, each in the report."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import pytest_membudget
from pytest_membudget.devices.stand_in.values.refusals import refused
from tests.devices.stand_in.unknown_data import here, shapes_of, unknown

MIB = 2**20


def empty_places():
    return torch.empty(0, dtype=torch.long, device="cuda")


#: What is selected of 8 x 50 numbers by a mask of them, and the largest shape that it can have.
WAYS = {
    "mask": (lambda x, mask: x[mask], [400]),
    "rows": (lambda x, mask: x[mask.any(1)], [8, 50]),
    "masked_select": (lambda x, mask: x.masked_select(mask), [400]),
    "nonzero": (lambda x, mask: mask.nonzero(), [400, 2]),
    "nonzero into a given result": (lambda x, mask: torch.nonzero(mask, out=empty_places()), [400, 2]),
    "nonzero of numbers": (lambda x, mask: torch.nonzero(x, as_tuple=True), [[400], [400]]),
    "where": (lambda x, mask: torch.where(mask), [[400], [400]]),
    "argwhere": (lambda x, mask: torch.argwhere(x), [400, 2]),
    "unique": (lambda x, mask: torch.unique(x), [400]),
    "unique with all": (
        lambda x, mask: x.unique(return_inverse=True, return_counts=True), [[400], [8, 50], [400]]
    ),
    "unique booleans": (lambda x, mask: mask.unique(), [2]),
    "unique bytes": (lambda x, mask: x.to(torch.int8).repeat(2, 1).unique(), [256]),  # of 800
    "unique rows": (lambda x, mask: x.unique(dim=0, return_inverse=True), [[8, 50], [8]]),
    "unique_consecutive": (lambda x, mask: x.unique_consecutive(return_counts=True), [[400], [400]]),
    "bincount": (lambda x, mask: x.long().flatten().bincount(minlength=7), [7]),
}  # fmt: skip


def selected(how, told):
    x = unknown(8, 50)
    with pytest_membudget.assume(**told) if told else torch.enable_grad():
        return shapes_of(WAYS[how][0](x, x > 0))


@pytest.mark.parametrize("how", WAYS)
def test_an_unknown_size_is_the_largest_that_it_can_be(trace, how):
    traced = trace(selected, how, {})

    assert traced.value == WAYS[how][1]
    assert len(traced.assumptions) == 1


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
    assert "by assume()" in traced.assumptions[0]


def listed():
    for _ in range(3):
        x = unknown(10)
        x[x > 0]
    with pytest_membudget.assume(true_fraction=0.5):
        x[x > 0]


def test_the_report_has_the_line_the_operator_and_what_to_write(trace):
    takes = "takes sizes from unknown data with aten.nonzero.default"
    assert trace(listed).assumptions == (
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
    (line,) = trace(loops_while_some_are_left).assumptions
    assert line.endswith("reads a bool value (once): taken to be False")


def without_bound(how, told):
    numbers = unknown(10).long()
    ways = {
        "repeat_interleave": lambda: unknown(10, 3).repeat_interleave(numbers, dim=0),
        "bincount": lambda: torch.bincount(numbers),
        "one_hot": lambda: F.one_hot(numbers),
    }
    with pytest_membudget.assume(**told) if told else torch.enable_grad():
        try:
            return shapes_of(ways[how]())
        except Exception as error:
            return [type(error).__name__, str(refused())]


def one_hot_of_drawn():
    return list(F.one_hot(torch.randint(3, 6, (10,), device="cuda")).shape)


def test_classes_that_are_drawn_are_as_many_as_may_be_drawn_and_named(trace):
    traced = trace(one_hot_of_drawn)

    assert traced.value == [10, 6]
    [line] = traced.assumptions
    assert line.endswith("taken to be at most 5, as is drawn")


@pytest.mark.parametrize("how", ["repeat_interleave", "bincount", "one_hot"])
def test_what_has_no_worst_case_is_refused(trace, how):
    name, refused = trace(without_bound, how, {}).value

    assert name == "NotAvailable"
    assert how in refused
    assert here(without_bound, 0) not in refused
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


def of_a_given_size():
    numbers = unknown(10).long()
    sparse = torch.sparse_coo_tensor(torch.zeros(2, 3, dtype=torch.long), torch.ones(3), (4, 4)).cuda()
    return shapes_of([
        torch.nonzero_static(numbers, size=4), numbers.repeat_interleave(numbers, output_size=30),
        F.one_hot(numbers, 5), F.one_hot(torch.tensor([1, 4], device="cuda")), sparse + sparse,
        sparse.to_dense(),
    ])  # fmt: skip


def test_sizes_that_are_given_are_no_assumptions(trace):
    traced = trace(of_a_given_size)

    assert traced.value == [[4, 1], [30], [10, 5], [2, 5], [4, 4], [4, 4]]
    assert not traced.assumptions


def one_hot_of_many(mode):
    with getattr(torch, mode)():
        F.one_hot(torch.zeros(2**17, dtype=torch.long, device="cuda"), 16)


@pytest.mark.parametrize("mode", ["no_grad", "inference_mode"])
def test_one_hot_takes_its_result_alone(trace, mode):
    """1 MiB of numbers and 16 MiB of ones and zeros; comparing with each class first would take more."""
    assert trace(one_hot_of_many, mode).allocated == 17 * MIB


def checked():
    """Decompositions check what they have computed: nothing was, and their memory was another's before."""
    for value in (7, 3):
        filler = torch.full((4000,), value, device="cuda")
        del filler
    square, wide = torch.randn(5, 5, device="cuda"), torch.randn(2, 5, device="cuda")
    matrix = torch.randn(5, 5, dtype=torch.complex64).cuda().requires_grad_()
    for vectors in (torch.linalg.eig(matrix)[1], torch.linalg.eigh(matrix)[1], torch.linalg.svd(matrix).U):
        vectors.abs().sum().backward()  # raises where allclose of imaginary parts is false
    return shapes_of([
        torch.linalg.svdvals(wide), torch.linalg.pinv(square), torch.linalg.eigvalsh(square),
        torch.linalg.eig(square)[0], torch.linalg.inv(square), torch.linalg.solve(square, square),
    ])  # fmt: skip


def test_checks_of_decompositions_find_nothing(trace):
    assert trace(checked).value == [[2], [5, 5], [5], [5], [5, 5], [5, 5]]


def looked_up():
    """``isin`` of floats sorts both and keeps what is different of each: at most all."""
    return list(torch.isin(torch.randn(5, device="cuda"), torch.randn(20, device="cuda")).shape)


def exponentials():
    """In the memory that the scales get: so many squarings would not end."""
    filler = torch.full((4000,), 1e18, device="cuda")
    del filler
    return list(torch.matrix_exp(torch.randn(2, 5, 5).cuda()).shape)


@pytest.mark.parametrize(
    ("body", "shape", "texts"),
    [
        (looked_up, [5], ["all different, the worst case"]),
        # ``compute_T18_scale_square`` (native/LinearAlgebra.cpp, 2.15) squares as often as it has read
        (exponentials, [2, 5, 5], ["reads an int64 value", "taken to be 4"]),
    ],
)
def test_loops_and_sorts_inside_operators_have_a_bound(trace, body, shape, texts):
    traced = trace(body)

    assert traced.value == shape
    assert any(all(text in line for text in texts) for line in traced.assumptions)


# The fast path of nn.Transformer in inference takes the lengths of sequences from a mask of the card

ROWS, LENGTH, WIDTH = 4, 1024, 64


def encoded(padding, told):
    layer = nn.TransformerEncoderLayer(WIDTH, 4, 128, batch_first=True, device="cuda")
    model = nn.TransformerEncoder(layer, 2).eval()
    batch = torch.randn(ROWS, LENGTH, WIDTH, device="cuda")
    mask = torch.randn(ROWS, LENGTH, device="cuda") > 0
    if padding is not None:
        mask = torch.arange(LENGTH, device="cuda").expand(ROWS, LENGTH) >= LENGTH - padding
    with torch.no_grad(), pytest_membudget.assume(true_fraction=told):
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        shape = model(batch, src_key_padding_mask=mask).shape
    return [list(shape), torch.cuda.max_memory_allocated() - before]


def test_padding_is_left_out_as_it_is_known_or_assumed(trace):
    takes = "takes sizes from unknown data with aten._nested_tensor_from_mask.default"
    peaks = []
    for told, padding in ((1.0, 0), (0.5, LENGTH // 2)):
        known, assumed = trace(encoded, padding, 1.0), trace(encoded, None, told)
        assert known.value[0] == [ROWS, LENGTH, WIDTH]
        assert not known.assumptions
        assert assumed.value == known.value
        assert [takes in line for line in assumed.assumptions] == [True]
        peaks.append(known.value[1])

    # at least the hidden 128 numbers of each token that is left out
    assert peaks[0] - peaks[1] >= ROWS * LENGTH // 2 * 128 * 4
