"""A pytest plugin: one test with each of several values of a parameter, on each of several cards.

The session of ``membudget fit`` has it on its command line, and so have its workers. The values are in an
environment variable, which they share.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Sequence
from typing import Any, Final

import pytest

from ..names import MARKER, WORKER
from .fit_search import Variation, variation_in

#: The parameter that is added to the test.
_POINT: Final = "membudget_point"


@pytest.hookimpl(wrapper=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Generator[None, object, object]:
    """Parametrize the test with the points; a fixture without parameters becomes a parameter."""
    result = yield
    varied = variation_in(os.environ)
    if varied.name in metafunc.fixturenames:
        # pytest has no public way to ask for the parameters so far
        if not any(varied.name in call.params for call in metafunc._calls):
            # a parameter overrides the fixture of its name; of a session, so that any fixture may ask for it
            metafunc.parametrize(varied.name, [None], ids=[varied.name], scope="session")
        metafunc.fixturenames.append(_POINT)
        metafunc.parametrize(
            _POINT, varied.points, ids=[point.id for point in varied.points], scope="session"
        )
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    """Give the test its value, and as its budget what the card can hold."""
    parameters = _parameters(item)
    if _POINT in parameters:
        from ..budgets.budget import ARGUMENTS

        point = parameters[_POINT]
        parameters[variation_in(os.environ).name] = point.value
        others = {name: None for name in ARGUMENTS.by_name if name != "gpus"}  # those of outer marks too
        item.add_marker(getattr(pytest.mark, MARKER)(**{**others, "gpu": point.gpu}), append=False)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep one test for each point: its variants differ only in the values that the points replace."""
    if config.pluginmanager.hasplugin(WORKER):  # it has collected whole files, and is asked for single tests
        return
    varied = variation_in(os.environ)
    kept: dict[tuple[str, str, tuple[tuple[str, int], ...]], pytest.Item] = {}
    for item in items:
        parameters = _parameters(item)
        if _POINT in parameters and (not varied.variant or f"[{varied.variant}-" in item.nodeid):
            indices = getattr(item, "callspec").indices  # noqa: B009 - only functions have it
            own = (varied.name, _POINT)
            others = tuple(sorted((name, index) for name, index in indices.items() if name not in own))
            kept.setdefault((item.nodeid.partition("[")[0], parameters[_POINT].id, others), item)
    known, items[:] = list(items), kept.values()
    if len(kept) != len(varied.points):
        items.clear()  # nothing is estimated
        raise pytest.UsageError(_several(kept.values()) if kept else _not_there(varied, known))


def _several(items: Iterable[pytest.Item]) -> str:
    ends = [(item.nodeid, f"-{_parameters(item)[_POINT].id}]") for item in items]
    names = dict.fromkeys(nodeid.removesuffix(end) + "]" for nodeid, end in ends)
    return f"these are several tests; name one of them: {', '.join(names)}"


def _not_there(varied: Variation, items: Sequence[pytest.Item]) -> str:
    if any(_POINT in _parameters(item) for item in items):
        return f"the test has no variant [{varied.variant}]"
    known = sorted({fixture for item in items for fixture in getattr(item, "fixturenames", ())})
    return f"the test has no parameter or fixture {varied.name!r}; it has {', '.join(known) or 'none'}"


def _parameters(item: pytest.Item) -> dict[str, Any]:
    found: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    return found
