"""Reads of data that nobody knows: a plausible answer, and a line in the report's assumptions."""

import re

import numpy
import pytest
import torch


def here(body, line=1):
    """The place of a line of ``body``, as the report writes it."""
    return f"test_reads.py:{body.__code__.co_firstlineno + line}"


def reads_by_type(assumptions):
    found = {}
    for text in assumptions:
        dtype, use, times = re.search(r"reads an? (\w+) value( as .*)? \((once|\d+)", text).groups()
        dtype += use or ""
        found[dtype] = found.get(dtype, 0) + (1 if times == "once" else int(times))
    return found


def item(dtype):
    return torch.empty(3, dtype=getattr(torch, dtype), device="cuda")[0].item()


@pytest.mark.parametrize(
    ("dtype", "value"), [("float32", 1.0), ("bfloat16", 1.0), ("int64", 1), ("uint8", 1), ("bool", False)]
)
def test_an_unknown_number_is_one_and_an_unknown_boolean_false(trace, dtype, value):
    traced = trace(item, dtype)

    assert (traced.value, type(traced.value)) == (value, type(value))
    article = "an" if dtype == "int64" else "a"
    assert traced.report.assumptions == (
        f"{here(item)} reads {article} {dtype} value (once): taken to be {value}",
    )


def known_item():
    return [
        torch.tensor(2.5, device="cuda").item(),
        bool(torch.tensor([0])),
        int(torch.tensor(7, device="cuda")),
    ]


def test_a_known_value_is_no_assumption(trace):
    traced = trace(known_item)

    assert traced.value == [2.5, False, 7]
    assert not traced.report.assumptions


def read_often():
    losses = []
    for _ in range(3):
        losses.append(torch.randn((), device="cuda").item())
    return losses


def test_reads_of_one_line_are_counted(trace):
    traced = trace(read_often)

    assert traced.report.assumptions == (
        f"{here(read_often, 3)} reads a float32 value (3 times): taken to be 1.0",
    )


def read_many_values():
    return [int(number) for number in torch.randint(5, 6, (1,), device="cuda") + torch.arange(5).cuda()]


def test_different_values_of_one_line_are_reported_together(trace):
    traced = trace(read_many_values)

    assert traced.value == [5, 6, 7, 8, 9]
    assert traced.report.assumptions == (
        f"{here(read_many_values)} reads an int64 value (5 times): taken to be 5, 6, 7 and 2 other values",
    )


def in_every_way():
    x = torch.randn(2, device="cuda")
    return [
        float(x[0]), int(x[0]), bool(x[0] > 0), x.tolist(), 3.0 in x, torch.is_nonzero(x[0] > 0),
        x.cpu().numpy().tolist(), numpy.asarray(x.cpu()).tolist(), f"{x[0]:.2f}",
        f"{x[0]:>4.1f}", format(x.sum(), "e"),
    ]  # fmt: skip


def test_every_way_of_reading_gives_the_plausible_value(trace):
    traced = trace(in_every_way)

    assert traced.value == [
        1.0, 1, False, [1.0, 1.0], False, False, [1.0, 1.0], [1.0, 1.0], "1.00", " 1.0", "1.000000e+00",
    ]  # fmt: skip
    assert reads_by_type(traced.report.assumptions) == {
        "float32": 8,
        "float32 as a whole number": 1,  # int()
        "bool": 3,
    }


def listed():
    return [torch.randn(4, 2, device="cuda").tolist(), torch.randn(4, 2, device="cuda").cpu().numpy().shape]


def test_a_whole_tensor_is_one_read(trace):
    assert trace(listed).report.assumptions == (
        f"{here(listed)} reads a float32 value (2 times): taken to be 1.0",
    )


def as_arrays():
    x = torch.arange(3)
    return [
        str(x.numpy().dtype), x.numpy().tolist(), numpy.array(x, dtype=numpy.float64).tolist(),
        numpy.asarray(x[1:]).tolist(), float(numpy.mean(torch.ones(4).numpy())),
        torch.ones(2, device="cuda", requires_grad=True).numpy(force=True).tolist(),
        [10, 20, 30][x[1]], list(range(x[2])), [int(i) for i in torch.arange(2, device="cuda")],
    ]  # fmt: skip


def test_known_tensors_become_arrays_indices_and_ranges(trace):
    traced = trace(as_arrays)

    assert traced.value == [
        "int64", [0, 1, 2], [0.0, 1.0, 2.0], [1, 2], 1.0, [1.0, 1.0], 20, [0, 1], [0, 1],
    ]  # fmt: skip
    assert not traced.report.assumptions


def compared():
    x, y = torch.arange(3, device="cuda"), torch.arange(1, 4, device="cuda")
    unknown = torch.randn(3, device="cuda")
    return [
        torch.equal(x, x.clone()), torch.equal(x, y), torch.equal(x, x[:2]), torch.equal(unknown, unknown),
        torch.equal(unknown, unknown[:2]), torch.allclose(x.float(), y.float()),
        torch.allclose(x.float(), y.float(), atol=1.0),
    ]  # fmt: skip


def test_known_tensors_are_compared_for_real(trace):
    traced = trace(compared)

    assert traced.value == [True, False, False, True, False, False, True]
    assert not traced.report.assumptions


def compared_unknown(how):
    first, second = torch.randn(3, device="cuda"), torch.randn(3, device="cuda")
    if how == "assert_close":
        return torch.testing.assert_close(first, second) is None
    return getattr(torch, how)(first, second)


@pytest.mark.parametrize("how", ["equal", "allclose", "assert_close"])
def test_unknown_tensors_are_taken_to_be_equal(trace, how):
    """A test that asserts it goes on, and a loop up to convergence ends."""
    traced = trace(compared_unknown, how)

    assert traced.value is True
    place = here(compared_unknown, 3 if how == "assert_close" else 4)
    assert traced.report.assumptions == (f"{place} reads a bool value (once): taken to be True",)


def made_of_tensors():
    one, two = torch.ones((), device="cuda"), torch.full((1,), 2, dtype=torch.int8, device="cuda")
    with torch.device("cuda"):
        inside = torch.tensor([one, 3])
        plain = torch.tensor([1, 2])
    made = [torch.tensor([one, two]), torch.as_tensor([[two], [4]]), torch.tensor([two, True]), inside, plain]
    return [[tensor.tolist(), str(tensor.dtype), tensor.device.type] for tensor in made]


def test_tensors_in_lists_are_read(trace):
    """Types as torch.tensor finds them for real tensors: int8 with True stays, with a Python int not."""
    assert trace(made_of_tensors).value == [
        [[1.0, 2.0], "torch.float32", "cpu"],
        [[[2], [4]], "torch.int64", "cpu"],
        [[2, 1], "torch.int8", "cpu"],
        [[1.0, 3.0], "torch.float32", "cuda"],
        [[1, 2], "torch.int64", "cuda"],
    ]


def list_of_a_whole_tensor():
    try:
        torch.tensor([torch.ones(3, device="cuda")])
    except ValueError as error:
        return str(error)


def test_a_list_of_larger_tensors_is_refused_as_ever(trace):
    assert "only one element tensors" in trace(list_of_a_whole_tensor).value


def an_empty_list_beside_a_count():
    mask = torch.randn(8, device="cuda") > 0
    trues = mask.sum()
    keys = torch.tensor([], device="cuda")  # as transformers' caches begin
    return [list(keys.shape), trues.item()]


def test_an_empty_tensor_has_no_value_to_count(trace):
    """Of a mask that nobody knows all is taken to be true."""
    assert trace(an_empty_list_beside_a_count).value == [[0], 8]


def read_of_an_expanded_tensor():
    ones = torch.ones((), device="cuda").expand(2**20, 2**20)
    return [torch.nn.functional.kl_div(ones, ones).item(), bool((ones == 1).all())]


def test_what_is_expanded_is_not_computed_element_by_element(trace):
    """A tebibyte of ones: whoever compared them all would not end."""
    assert trace(read_of_an_expanded_tensor).value[1] is True
