"""Half the batch, where a parameter or a fixture of the test is its size."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from ....advice.changes import BATCH_SIZES
from .contract import Note


def halve_batch(item: pytest.Item, note: Note) -> None:
    """Half of every fixture and parameter with one of these names that is a number of at least 2."""
    item.config.pluginmanager.register(_Halving(note))


class _Halving:
    def __init__(self, note: Note) -> None:
        self._note = note

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
    ) -> Generator[None, Any, Any]:
        """Halve what the fixture gives, to all that ask for it."""
        value = yield
        name = fixturedef.argname
        if name not in BATCH_SIZES or type(value) is not int or value < 2:
            return value
        half = value // 2
        self._note(f"{name}={half} in place of {value}")
        kept: Any = fixturedef.cached_result
        fixturedef.cached_result = (half, *kept[1:])
        return half
