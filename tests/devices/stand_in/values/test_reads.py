"""Reads of data that nobody knows: a plausible answer, and a line in the report's assumptions."""

import re
import resource

import numpy
import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import pytest_membudget
from pytest_membudget.devices.stand_in.values.variants import VARIANT
from tests.devices.stand_in.unknown_data import here


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
    assert traced.assumptions == (f"{here(item)} reads {article} {dtype} value (once): taken to be {value}",)


def synchronizing():
    torch.cuda.set_sync_debug_mode("error")
    try:
        return torch.randn((), device="cuda").item()
    except RuntimeError as error:
        return str(error)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_a_read_synchronizes_where_the_debug_mode_looks(trace):
    assert "called a synchronizing CUDA operation" in trace(synchronizing).value


def known_item():
    return [torch.tensor(2.5, device="cuda").item(), bool(torch.tensor([0])), int(torch.tensor(7).cuda())]


def as_arrays():
    x = torch.arange(3)
    return [
        str(x.numpy().dtype), x.numpy().tolist(), numpy.array(x, dtype=numpy.float64).tolist(),
        numpy.asarray(x[1:]).tolist(), float(numpy.mean(torch.ones(4).numpy())),
        torch.ones(2, device="cuda", requires_grad=True).numpy(force=True).tolist(),
        [10, 20, 30][x[1]], list(range(x[2])), [int(i) for i in torch.arange(2, device="cuda")],
    ]  # fmt: skip


def compared():
    x, y = torch.arange(3, device="cuda"), torch.arange(1, 4, device="cuda")
    unknown = torch.randn(3, device="cuda")
    return [
        torch.equal(x, x.clone()), torch.equal(x, y), torch.equal(x, x[:2]), torch.equal(unknown, unknown),
        torch.equal(unknown, unknown[:2]), torch.allclose(x.float(), y.float()),
        torch.allclose(x.float(), y.float(), atol=1.0),
    ]  # fmt: skip


def made_of_tensors():
    one, two = torch.ones((), device="cuda"), torch.full((1,), 2, dtype=torch.int8, device="cuda")
    made = [torch.tensor([one, two]), torch.as_tensor([[two], [4]]), torch.tensor([two, True])]
    return [[tensor.tolist(), str(tensor.dtype)[6:], tensor.device.type] for tensor in made]


def filled_with_tensors():
    """The kernels read the number that they fill in (native/cuda/Indexing.cu, 2.13)."""
    number, unknown, zeros = torch.tensor(2.0).cuda(), torch.randn(3, device="cuda"), torch.zeros(3).cuda()
    unknown.masked_fill_(unknown > 0, number).index_fill_(0, torch.arange(2, device="cuda"), number)
    return zeros.masked_fill(torch.arange(3, device="cuda") > 1, number).tolist()


KNOWN = [
    (known_item, [2.5, False, 7]),
    (as_arrays, ["int64", [0, 1, 2], [0.0, 1.0, 2.0], [1, 2], 1.0, [1.0, 1.0], 20, [0, 1], [0, 1]]),
    (filled_with_tensors, [0.0, 0.0, 2.0]),
    (compared, [True, False, False, True, False, False, True]),
    (
        made_of_tensors,
        [[[1.0, 2.0], "float32", "cpu"], [[[2], [4]], "int64", "cpu"], [[2, 1], "int8", "cpu"]],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("body", "value"), KNOWN)
def test_a_known_value_is_no_assumption(trace, body, value):
    traced = trace(body)

    assert traced.value == value
    assert not traced.assumptions


def read_often():
    losses = []
    for _ in range(3):
        losses.append(torch.randn((), device="cuda").item())
    return losses


def read_many_values():
    return [int(number) for number in torch.randint(5, 6, (1,), device="cuda") + torch.arange(5).cuda()]


def listed():
    return [torch.randn(4, 2, device="cuda").tolist(), torch.randn(4, 2, device="cuda").cpu().numpy().shape]


@pytest.mark.parametrize(
    ("body", "line", "text"),
    [
        (read_often, 3, "reads a float32 value (3 times): taken to be 1.0"),
        (read_many_values, 1, "reads an int64 value (5 times): taken to be 5, 6, 7 and 2 other values"),
        (listed, 1, "reads a float32 value (2 times): taken to be 1.0"),  # a whole tensor is one read
    ],
)
def test_reads_of_one_line_are_reported_together(trace, body, line, text):
    assert trace(body).assumptions == (f"{here(body, line)} {text}",)


def whole():
    return torch.randn(4, device="cuda").long().sum().item()


def test_a_whole_number_may_be_a_size(trace):
    [caveat] = trace(whole).report.caveats

    assert (caveat.cause.name, caveat.kind) == ("size-read", "unchecked")


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
    assert reads_by_type(traced.assumptions) == {"float32": 8, "bool": 3}


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
    assert traced.assumptions == (f"{place} reads a bool value (once): taken to be True",)


def an_empty_list_beside_a_count():
    """It has no value to count; of a mask that nobody knows all is taken to be true."""
    mask = torch.randn(8, device="cuda") > 0
    trues = mask.sum()
    keys = torch.tensor([], device="cuda")  # as transformers' caches begin
    return [list(keys.shape), trues.item()]


def told():
    x = torch.randn(2, device="cuda")
    with pytest_membudget.assume(value=0.0), pytest_membudget.assume(value=True):
        return [
            x[0].item(),
            bool(x[0] > 0),
            int(x[0].long()),
            x.tolist(),
            torch.ones((), device="cuda").item(),
        ]


def test_reads_of_each_type_can_be_assumed_to_give_a_value(trace):
    traced = trace(told)

    assert traced.value == [0.0, True, 1, [0.0, 0.0], 1.0]
    assert any(
        "reads a float32 value" in one and "taken to be 0.0, by assume()" in one for one in traced.assumptions
    )


def checked_gradients():
    """Gradients agree, and those of zeros are zeros."""
    x = torch.randn(3, dtype=torch.float64, device="cuda", requires_grad=True)
    return torch.autograd.gradcheck(torch.sigmoid, (x,))


@pytest.mark.parametrize(
    ("body", "value"), [(an_empty_list_beside_a_count, [[0], 8]), (checked_gradients, True)]
)
def test_a_value_is_read_where_it_decides_a_size_or_a_check(trace, body, value):
    assert trace(body).value == value


def printed_of_two_gib():
    VARIANT.begin(1, ())
    x = torch.randn(2**14, 2**15, device="cuda")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    text = str(x)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, text.count("[")


def test_of_a_large_tensor_the_host_gets_the_edges_that_are_printed(trace):
    kib, rows = trace(printed_of_two_gib).value

    assert kib < 2**18
    assert rows == 1 + 3 + 3


def printed():
    shown = repr(torch.randn(2, 3, device="cuda"))
    # what a kernel that computes nothing then finds in its memory
    torch.full((2**16,), 3, dtype=torch.int32, device="cuda")
    texts = [str(torch.arange(3, device="cuda")), str(torch.tensor([1.5, 20.0], device="cuda"))]
    return [*texts, shown.count("[") + shown.count(",")]


def test_printing_what_nobody_knows_is_a_read(trace):
    traced = trace(printed)

    assert traced.value == [
        "tensor([0, 1, 2], device='cuda:0')", "tensor([ 1.5000, 20.0000], device='cuda:0')", 3 + 6
    ]  # fmt: skip
    assert traced.assumptions == (f"{here(printed, 1)} reads a float32 value (once): taken to be 1.0",)


def attended():
    query = torch.randn(1, 1, 8, 4, device="cuda", requires_grad=True)
    with sdpa_kernel(SDPBackend.MATH):
        torch.nn.functional.scaled_dot_product_attention(query, query, query).sum().backward()


def test_attention_that_asks_which_rows_are_masked_makes_no_other_run(trace):
    assert trace(attended).unknown == []
