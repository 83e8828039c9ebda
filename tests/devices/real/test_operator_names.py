"""Operators' names of C++ stacks, as the dispatcher has them."""

import pytest

from pytest_membudget.devices.real.origins import operator_name


@pytest.mark.parametrize(
    ("called", "name"),
    [
        ("aten::empty_memory_format", "aten::empty.memory_format"),
        ("aten::add_Tensor", "aten::add.Tensor"),
        ("aten::_foreach_add_List", "aten::_foreach_add.List"),
        ("aten::mm", "aten::mm"),
        ("aten::_log_softmax_backward_data", "aten::_log_softmax_backward_data"),
        ("somebodys::kernel_of_theirs", "somebodys::kernel_of_theirs"),
        ("", ""),
    ],
)
def test_the_name_is_the_dispatchers(called, name):
    """As aten/src/ATen/native/native_functions.yaml (2.13) has them: an overload stands behind a dot."""
    assert operator_name(called) == name
