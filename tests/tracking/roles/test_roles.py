"""Roles of storages as modules and optimizers show them, on plain tensors."""

import weakref

import pytest
import torch
from torch import nn

from pytest_membudget.tracking.roles.role_book import RoleBook


class Seen:
    """Keeps the roles that are noted, by the tensor's storage."""

    def __init__(self):
        self.roles = {}
        self.trained = set()

    def note(self, write, tensors, *args):
        getattr(self, write.__name__)(*tensors, *args)

    def note_role(self, tensor, role, name, dtype=None):
        self.roles[tensor.data_ptr()] = (role, name)

    def note_trained(self, parameter, is_parameter=True):
        self.trained.add(parameter.data_ptr())

    def note_gradient(self, gradient, leaf, name, is_parameter):
        self.note_role(gradient, "gradients" if is_parameter else "passing", name)

    def of(self, tensor):
        return self.roles.get(tensor.data_ptr())


@pytest.fixture
def seen():
    noted = Seen()
    book = RoleBook(noted.note)
    book.install()
    noted.book = book
    yield noted
    book.remove()


def test_a_parameter_is_one_and_has_its_name(seen):
    layer = nn.Linear(4, 4)

    assert seen.of(layer.weight) == ("parameters", "weight")


def test_a_parameter_without_a_gradient_to_come_is_frozen(seen):
    model = nn.Sequential(nn.Linear(4, 4)).requires_grad_(False)
    seen.book.see_module(model)

    assert seen.of(model[0].weight) == ("frozen_parameters", "0.weight")


class Scales:
    """What bitsandbytes keeps beside a 4-bit weight, nested where its scales are quantised."""

    def __init__(self, state2=None):
        self.absmax, self.state2, self.blocksize = torch.zeros(2), state2, 64


def test_a_quantised_weight_s_scales_are_parameters(seen):
    layer = nn.Linear(4, 4, bias=False).requires_grad_(False)
    layer.weight.quant_state = state = Scales(Scales())
    layer.weight.SCB = torch.zeros(4)
    layer.weight.main_grad = torch.zeros(4, 4)  # other attributes are not
    seen.book.see_module(nn.Sequential(layer))

    assert seen.of(state.absmax) == ("frozen_parameters", "0.weight.quant_state.absmax")
    assert seen.of(state.state2.absmax) == ("frozen_parameters", "0.weight.quant_state.state2.absmax")
    assert seen.of(layer.weight.SCB) == ("frozen_parameters", "0.weight.SCB")
    assert seen.of(layer.weight.main_grad) is None


def test_a_buffer_is_one(seen):
    model = nn.Sequential(nn.BatchNorm1d(4))
    seen.book.see_module(model)

    assert seen.of(model[0].running_mean) == ("buffers", "0.running_mean")


def test_a_buffer_that_is_registered_later_is_one(seen):
    layer = nn.Linear(4, 4)
    layer.register_buffer("table", torch.ones(4))

    assert seen.of(layer.table) == ("buffers", "table")


def test_gradients_are_seen_before_a_step_and_their_parameters_are_trained(seen):
    layer = nn.Linear(4, 4)
    layer(torch.ones(1, 4)).sum().backward()
    torch.optim.SGD(layer.parameters(), lr=0.1).step()

    assert seen.of(layer.weight.grad) == ("gradients", "weight")
    assert layer.weight.data_ptr() in seen.trained


class Nested(torch.optim.Optimizer):
    """Keeps states in lists and dicts, as quantised and factored ones do."""

    def __init__(self, params):
        super().__init__(params, {})

    @torch.no_grad()
    def step(self, closure=None):
        for parameter in self.param_groups[0]["params"]:
            state = self.state[parameter]
            state["flat"] = torch.ones(2)
            state["moments"] = {"first": torch.ones(3), "blocks": [torch.ones(4), torch.ones(5)]}


def test_states_are_seen_wherever_an_optimizer_keeps_them(seen):
    layer = nn.Linear(4, 4, bias=False)
    optimizer = Nested(layer.parameters())
    optimizer.step()
    state = optimizer.state[layer.weight]

    assert seen.of(state["flat"]) == ("optimizer_states", "weight.flat")
    assert seen.of(state["moments"]["first"]) == ("optimizer_states", "weight.moments.first")
    assert seen.of(state["moments"]["blocks"][1]) == ("optimizer_states", "weight.moments.blocks.1")


def test_nothing_is_seen_once_the_book_is_closed(seen):
    seen.book.remove()
    layer = nn.Linear(4, 4)
    torch.optim.SGD(layer.parameters(), lr=0.1).step()

    assert seen.of(layer.weight) is None


def test_states_that_an_optimizer_loads_are_its_states(seen):
    layer = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(layer.parameters(), momentum=0.9)
    state = optimizer.state_dict()
    state["state"] = {0: {"momentum_buffer": torch.zeros(4, 4)}}

    optimizer.load_state_dict(state)

    (loaded,) = (held["momentum_buffer"] for held in optimizer.state.values())
    assert seen.of(loaded) == ("optimizer_states", "weight.momentum_buffer")


def test_a_removed_book_leaves_loading_as_it_was():
    before = torch.optim.Optimizer.load_state_dict
    book = RoleBook(Seen().note)
    book.install()
    assert torch.optim.Optimizer.load_state_dict is not before

    book.remove()

    assert torch.optim.Optimizer.load_state_dict is before


def test_parameters_can_be_exchanged_and_what_is_there_then_is_one(seen):
    """torch refuses to exchange what has weak references; torchtune's NF4 linears are made so."""
    layer = nn.Linear(4, 4, bias=False)
    torch.utils.swap_tensors(layer.weight, nn.Parameter(torch.zeros(8, 8), requires_grad=False))

    assert layer.weight.shape == (8, 8)
    assert seen.of(layer.weight) == ("frozen_parameters", "weight")
    layer.weight.grad = torch.ones(8, 8)
    seen.book.see_gradients()
    assert seen.of(layer.weight.grad) == ("gradients", "weight")


def test_with_two_books_parameters_can_be_exchanged():
    books = [RoleBook(Seen().note), RoleBook(Seen().note)]
    before = torch.utils.swap_tensors
    for book in books:
        book.install()
    layer = nn.Linear(4, 4, bias=False)
    torch.utils.swap_tensors(layer.weight, nn.Parameter(torch.zeros(8, 8)))
    for book in books:
        book.remove()

    assert layer.weight.shape == (8, 8)
    assert torch.utils.swap_tensors is before


def test_what_others_refer_to_weakly_is_still_not_exchanged(seen):
    layer = nn.Linear(4, 4, bias=False)
    reference = weakref.ref(layer.weight)

    with pytest.raises(RuntimeError, match="weakref"):
        torch.utils.swap_tensors(layer.weight, nn.Parameter(torch.zeros(8, 8)))
    layer.weight.grad = torch.ones(4, 4)
    seen.book.see_gradients()

    assert reference() is layer.weight
    assert seen.of(layer.weight.grad) == ("gradients", "weight")
