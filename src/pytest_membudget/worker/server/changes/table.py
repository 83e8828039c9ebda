"""The changes by name, and the run of a test with one of them."""

import os
from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from typing import Any, Final

import pytest

from ....names import ALLOC_CONF
from ....results.advice import BATCH_SIZES
from ....results.answer import TRACED, Answer
from . import Apply, Note
from .checkpointing import checkpoint_blocks
from .chunked_cross_entropy import chunk_cross_entropy
from .optimizers import step_in_backward, use_eight_bits, use_fused, use_single_tensor


def use_expandable_segments(item: pytest.Item, note: Note) -> None:
    """Name the setting, with which the client has started this process."""
    for name in ALLOC_CONF:
        if name in os.environ:
            note(f"{name}={os.environ[name]}")


def halve_batch(item: pytest.Item, note: Note) -> None:
    """Halve each fixture and parameter with the name of a batch size that is a whole number of 2 or more."""
    item.config.pluginmanager.register(_Halving(note))


class _Halving:
    def __init__(self, note: Note) -> None:
        self._note = note

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
    ) -> Generator[None, Any, Any]:
        """Halve the value of the fixture, for all that use it."""
        value = yield
        name = fixturedef.argname
        if name not in BATCH_SIZES or type(value) is not int or value < 2:
            return value
        half = value // 2
        self._note(f"{name}={half} instead of {value}")
        kept: Any = fixturedef.cached_result
        fixturedef.cached_result = (half, *kept[1:])
        return half


#: The names are those of ``results.advice.CHANGES``.
APPLY: Final[Mapping[str, Apply]] = {
    "checkpointing": checkpoint_blocks,
    "chunked_cross_entropy": chunk_cross_entropy,
    "eight_bit_states": use_eight_bits,
    "expandable_segments": use_expandable_segments,
    "fused": use_fused,
    "half_batch": halve_batch,
    "single_tensor": use_single_tensor,
    "step_in_backward": step_in_backward,
}


def run_with_change(name: str, item: pytest.Item, run: Callable[[], Answer]) -> Answer:
    """Apply the change ``name`` and return the answer of ``run``.

    ``changed`` in the answer names what was changed. It is empty if the change was not applicable, and if the
    test failed with it. Changes are not undone: the process must end with the run.
    """
    changed: dict[str, None] = {}
    APPLY[name](item, lambda what: changed.update({what: None}))
    answer = run()
    reports = tuple(replace(report, holders=(), timeline=None) for report in answer.reports)
    is_complete = answer.outcome == TRACED
    return Answer(TRACED, reports=reports, changed=" and ".join(changed) if is_complete else "")
