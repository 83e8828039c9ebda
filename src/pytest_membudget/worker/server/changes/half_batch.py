"""Half the batch size, if it is a parameter or a fixture of the test."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from ....results.advice import BATCH_SIZES
from . import Note


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
