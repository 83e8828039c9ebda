"""Number types by their names, and whole bytes of elements that are smaller than one."""

import pytest

from pytest_membudget.errors import UsageMistake
from pytest_membudget.formulas.number_types import bytes_for, element_bytes, number_type


@pytest.mark.parametrize(
    ("name", "size_bytes"),
    [("fp64", 8), ("fp32", 4), ("bf16", 2), ("fp16", 2), ("fp8", 1), ("int8", 1), ("int64", 8), ("bool", 1)],
)
def test_elements_have_their_types_bytes(name, size_bytes):
    assert bytes_for(1000, name) == 1000 * size_bytes
    assert element_bytes(name) == size_bytes


@pytest.mark.parametrize(("elements", "size_bytes"), [(0, 0), (1, 1), (2, 1), (7, 4), (8, 4)])
def test_an_odd_element_of_four_bits_takes_a_byte(elements, size_bytes):
    assert bytes_for(elements, "nf4") == size_bytes


@pytest.mark.parametrize(
    ("written", "name"), [("torch.bfloat16", "bf16"), ("half", "fp16"), ("uint8", "int8")]
)
def test_a_type_is_known_by_any_of_its_names(written, name):
    assert number_type(written) == name


def test_an_unknown_type_is_refused_with_those_that_there_are():
    with pytest.raises(UsageMistake, match="'fp12' is no number type; write one of fp64, fp32"):
        number_type("fp12")
