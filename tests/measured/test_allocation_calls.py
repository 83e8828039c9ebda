"""Who asked for a block, joined to the history by address; and the private part of torch that tells it."""

import threading

import torch

from pytest_membudget.measured.allocation_calls import AllocationCalls
from pytest_membudget.measured.forward_modules import ForwardModules
from pytest_membudget.tracking.source import SourceFinder


def calls(addresses):
    made = AllocationCalls(SourceFinder([], "/nowhere"))
    made._is_on = True
    for address in addresses:
        made._allocated(address)
    return made


def test_calls_for_one_address_are_taken_in_their_order():
    made = calls([1, 2, 1])
    first, second = made.take(1), made.take(1)

    assert first is not None and second is not None
    assert made.take(1) is None
    assert made.take(2) is not None


def test_what_was_never_asked_for_has_no_call():
    assert calls([]).take(5) is None


def test_torch_tells_of_each_block_that_it_hands_out():
    """If this fails, torch has moved or renamed the callbacks of its CUDA sanitizer: backward's memory has
    no module then, and memory no line."""
    from torch.cuda import _gpu_trace

    assert callable(_gpu_trace.register_callback_for_memory_allocation)
    assert callable(torch._C._activate_gpu_trace)


def test_nodes_are_numbered_as_they_are_made():
    """If this fails, backward's memory is told under the wrong module."""
    before = torch._C._autograd._get_sequence_nr()
    node = (torch.ones(1, requires_grad=True) * 2).grad_fn

    assert node._sequence_nr() == before
    assert torch._C._autograd._get_sequence_nr() == before + 1


def test_a_node_is_of_the_module_that_ran_when_it_was_made():
    modules = ForwardModules()
    leaf = torch.ones(1, requires_grad=True)
    modules.entered("layers.0")
    first = (leaf * 2).grad_fn._sequence_nr()
    modules.entered(None)
    outside = (leaf * 2).grad_fn._sequence_nr()

    assert modules.module_of(first, 0) == "layers.0"
    assert modules.module_of(outside, 0) is None
    assert modules.module_of(-1, 0) is None


def test_a_backward_of_another_threads_nodes_has_that_threads_modules():
    modules, numbers = ForwardModules(), {}
    modules.entered("here")

    def recompute():
        modules.entered("there")
        numbers["there"] = (torch.ones(1, requires_grad=True) * 2).grad_fn._sequence_nr()
        numbers["thread"] = threading.get_ident()

    thread = threading.Thread(target=recompute)
    thread.start()
    thread.join()
    modules.backward_begins(7, numbers["thread"])

    assert modules.module_of(numbers["there"], 7) == "there"
