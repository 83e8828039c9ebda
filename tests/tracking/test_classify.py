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
P, FROZEN = components.PARAMETERS, components.FROZEN_PARAMETERS
ACTIVATIONS, TEMPORARIES, INPUTS = components.ACTIVATIONS, components.TEMPORARIES, components.INPUTS
FORWARD, RECOMPUTE, BACKWARD, OPTIMIZER = Phase.FORWARD, Phase.RECOMPUTE, Phase.BACKWARD, Phase.OPTIMIZER


def component_of(story, phase=FORWARD, **known):
    """The component of a storage that is born and may die among backwards and returns of module calls."""
    ledger, record = Ledger(), Record(512, "aten::mm", phase)
    for name, value in known.items():
        setattr(record, name, value)
    events = {
        "born": lambda: ledger.born(1, record),
        "dies": lambda: ledger.died(1),
        "backward": ledger.mark,
        "call 1 returns": lambda: ledger.end_root_call(1),
        "call 2 returns": lambda: ledger.end_root_call(2),
    }
    for event in story.split(", "):
        events[event]()
    return ledger.component_of(record)


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("phase", list(Phase))
def test_a_role_that_was_seen_decides_whenever_it_was_born(role, phase):
    assert component_of("born", phase, role=role) == role


@pytest.mark.parametrize("role", ROLES[1:])
def test_a_role_holds_for_a_storage_that_backward_finds_there(role):
    assert component_of("born, backward", role=role, from_inputs=True) == role


#: What happens, what is known of the storage, and its component.
STORIES = {
    "a parameter that is trained": ("born, backward", {"role": P, "trained": True}, P),
    "one that no gradient reached, in a test that trains": ("born, backward", {"role": P}, FROZEN),
    "one in a test that only infers": ("born, call 1 returns", {"role": P}, P),
    "one made after the first backward": ("backward, born, backward", {"role": P}, P),
    "one gone before the first backward": ("born, dies, backward", {"role": P}, P),
    "a teacher that dies after the first backward": ("born, backward, dies", {"role": P}, FROZEN),
    "there when backward begins": ("born, backward", {}, ACTIVATIONS),
    "recomputed, there when backward begins": ("born, backward", {"phase": RECOMPUTE}, ACTIVATIONS),
    "used up by backward": ("born, backward, dies", {}, ACTIVATIONS),
    "recomputed, used up by backward": ("born, backward, dies", {"phase": RECOMPUTE}, ACTIVATIONS),
    "gone before backward begins": ("born, dies, backward", {}, TEMPORARIES),
    "recomputed, gone before backward begins": ("born, dies, backward", {"phase": RECOMPUTE}, TEMPORARIES),
    "kept for the second step's backward": ("backward, born, backward", {}, ACTIVATIONS),
    "gone before the second step's backward": ("backward, born, dies, backward", {}, TEMPORARIES),
    "without a backward or a module": ("born", {}, TEMPORARIES),
    "outlives its module call": ("born, call 1 returns, dies", {"root_call": 1}, ACTIVATIONS),
    "left behind by its module call": ("born, call 1 returns", {"root_call": 1}, ACTIVATIONS),
    "dies inside its module call": ("born, dies, call 1 returns", {"root_call": 1}, TEMPORARIES),
    "another module call returns": (
        "born, call 1 returns, dies, call 2 returns",
        {"root_call": 2},
        TEMPORARIES,
    ),
    "left behind by a module call that was cut short": ("born", {"root_call": 1}, ACTIVATIONS),
    "died in a module call that was cut short": ("born, dies", {"root_call": 1}, TEMPORARIES),
    "a batch": ("born", {"from_inputs": True}, INPUTS),
    "a batch that backward finds there": ("born, backward", {"from_inputs": True}, INPUTS),
    "a norm that is kept for the update": ("born, backward", {"for_update": True}, TEMPORARIES),
    **{
        f"made by {phase.value}, without a role": (
            "born, call 1 returns, backward",
            {"phase": phase, "root_call": 1, "from_inputs": True},
            TEMPORARIES,
        )
        for phase in (BACKWARD, OPTIMIZER)
    },
}


@pytest.mark.parametrize("name", STORIES)
def test_without_a_role_what_happened_decides(name):
    story, known, component = STORIES[name]

    assert component_of(story, **known) == component
