"""From what is known of a storage to its component."""

import pytest

from pytest_membudget import components
from pytest_membudget.tracking.ledger import Ledger
from pytest_membudget.tracking.record import Phase, Record

ROLES = [
    components.PARAMETERS,
    components.FROZEN_PARAMETERS,
    components.BUFFERS,
    components.GRADIENTS,
    components.OPTIMIZER_STATES,
    components.COLLECTIVES,
    components.WORKSPACES,
]
FORWARDS = [Phase.FORWARD, Phase.RECOMPUTE]
OTHERS = [Phase.BACKWARD, Phase.OPTIMIZER]


class Story:
    """A test's run as the ledger sees it, one event after the other."""

    def __init__(self):
        self.ledger = Ledger()

    def born(self, phase=Phase.FORWARD, **known):
        record = Record(512, "aten::mm", phase)
        for name, value in known.items():
            setattr(record, name, value)
        self.ledger.born(id(record), record)
        return record

    def died(self, record):
        self.ledger.died(id(record))

    def backward_begins(self):
        self.ledger.mark()

    def call_returns(self, number):
        self.ledger.end_root_call(number)

    def component_of(self, record):
        return self.ledger.component_of(record)


@pytest.fixture
def story():
    return Story()


# Roles that were seen


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("phase", list(Phase))
def test_a_role_that_was_seen_decides_whenever_it_was_born(story, role, phase):
    assert story.component_of(story.born(phase, role=role)) == role


@pytest.mark.parametrize("role", ROLES[1:])
def test_a_role_holds_for_a_storage_that_backward_finds_there(story, role):
    record = story.born(role=role, from_inputs=True)
    story.backward_begins()
    assert story.component_of(record) == role


# Parameters, trained or not


def test_a_parameter_that_is_trained_is_one(story):
    record = story.born(role=components.PARAMETERS, trained=True)
    story.backward_begins()
    assert story.component_of(record) == components.PARAMETERS


def test_a_parameter_that_no_gradient_reached_is_frozen_in_a_test_that_trains(story):
    record = story.born(role=components.PARAMETERS)
    story.backward_begins()
    assert story.component_of(record) == components.FROZEN_PARAMETERS


def test_a_parameter_is_no_frozen_one_in_a_test_that_only_infers(story):
    record = story.born(role=components.PARAMETERS)
    story.call_returns(1)
    assert story.component_of(record) == components.PARAMETERS


def test_a_parameter_made_after_the_first_backward_is_not_called_frozen(story):
    story.backward_begins()
    record = story.born(role=components.PARAMETERS)
    story.backward_begins()
    assert story.component_of(record) == components.PARAMETERS


def test_a_parameter_gone_before_the_first_backward_is_not_called_frozen(story):
    record = story.born(role=components.PARAMETERS)
    story.died(record)
    story.backward_begins()
    assert story.component_of(record) == components.PARAMETERS


def test_a_teacher_is_frozen_though_it_dies_after_the_first_backward(story):
    record = story.born(role=components.PARAMETERS)
    story.backward_begins()
    story.died(record)
    assert story.component_of(record) == components.FROZEN_PARAMETERS


# What the forward made


@pytest.mark.parametrize("phase", FORWARDS)
def test_what_is_there_when_backward_begins_is_an_activation(story, phase):
    record = story.born(phase)
    story.backward_begins()
    assert story.component_of(record) == components.ACTIVATIONS


@pytest.mark.parametrize("phase", FORWARDS)
def test_what_backward_uses_up_was_an_activation(story, phase):
    record = story.born(phase)
    story.backward_begins()
    story.died(record)
    assert story.component_of(record) == components.ACTIVATIONS


@pytest.mark.parametrize("phase", FORWARDS)
def test_what_is_gone_before_backward_begins_was_a_temporary(story, phase):
    record = story.born(phase)
    story.died(record)
    story.backward_begins()
    assert story.component_of(record) == components.TEMPORARIES


def test_the_second_step_has_a_backward_of_its_own(story):
    story.backward_begins()
    kept, dropped = story.born(), story.born()
    story.died(dropped)
    story.backward_begins()
    assert story.component_of(kept) == components.ACTIVATIONS
    assert story.component_of(dropped) == components.TEMPORARIES


def test_without_a_backward_or_a_module_the_rest_is_temporary(story):
    assert story.component_of(story.born()) == components.TEMPORARIES


def test_what_outlives_the_module_call_that_made_it_is_an_activation(story):
    record = story.born(root_call=1)
    story.call_returns(1)
    story.died(record)
    assert story.component_of(record) == components.ACTIVATIONS


def test_what_a_returned_module_call_left_behind_is_an_activation(story):
    record = story.born(root_call=1)
    story.call_returns(1)
    assert story.component_of(record) == components.ACTIVATIONS


def test_what_dies_inside_the_module_call_that_made_it_is_a_temporary(story):
    record = story.born(root_call=1)
    story.died(record)
    story.call_returns(1)
    assert story.component_of(record) == components.TEMPORARIES


def test_the_return_of_another_module_call_says_nothing(story):
    record = story.born(root_call=2)
    story.call_returns(1)
    story.died(record)
    story.call_returns(2)
    assert story.component_of(record) == components.TEMPORARIES


def test_a_module_call_that_was_cut_short_leaves_activations_behind(story):
    assert story.component_of(story.born(root_call=1)) == components.ACTIVATIONS


def test_what_died_in_a_module_call_that_was_cut_short_was_a_temporary(story):
    record = story.born(root_call=1)
    story.died(record)
    assert story.component_of(record) == components.TEMPORARIES


# Inputs


def test_a_batch_is_an_input(story):
    assert story.component_of(story.born(from_inputs=True)) == components.INPUTS


def test_a_batch_that_backward_finds_there_is_an_input_still(story):
    record = story.born(from_inputs=True)
    story.backward_begins()
    assert story.component_of(record) == components.INPUTS


# What was made for the optimizer's step


def test_a_norm_that_is_kept_is_a_temporary(story):
    record = story.born(for_update=True)
    story.backward_begins()
    assert story.component_of(record) == components.TEMPORARIES


# What backward and optimizer made


@pytest.mark.parametrize("phase", OTHERS)
def test_what_backward_or_optimizer_made_without_a_role_is_temporary(story, phase):
    record = story.born(phase, root_call=1, from_inputs=True)
    story.call_returns(1)
    story.backward_begins()
    assert story.component_of(record) == components.TEMPORARIES
