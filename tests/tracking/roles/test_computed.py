"""What operators give that read nothing but parameters, as notes of their storages."""

import torch

from pytest_membudget.tracking.record import Record
from pytest_membudget.tracking.roles.computed import Computed

aten = torch.ops.aten


def test_a_result_without_memory_is_nobodys_and_a_number_is_not_taken_for_it():
    """An empty tensor has no address, and neither has what ``item`` returns."""
    notes = []
    computed = Computed(lambda write, tensors: notes.append((write, len(tensors))), lambda: None)
    weight, batch = torch.ones(4), torch.ones(4)
    computed.holds(weight)

    computed.seeing(aten.mul.Tensor)((weight, 2.0), torch.empty(0))
    computed.seeing(aten._local_scalar_dense.default)((batch,), 1.0)
    assert notes == []

    computed.seeing(aten.mul.Tensor)((weight, 2.0), weight * 2)
    assert notes == [(Record.note_computed, 2)]
