"""A pytest plugin: one test with each of several values of a parameter, on each of several cards.

An entry of a ``*.membudget.yaml`` is a test too, with values of a field or of an argument of its script.

The session of ``membudget fit`` has it on its command line, and so have its workers. The values are in an
environment variable, which they share.
"""

import os
import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any, Final

import pytest

from ..names import MARKER, WORKER
from ..scenarios.items import EntryItem
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
    varied = variation_in(os.environ)
    known = list(items)
    entries = [item for item in known if isinstance(item, EntryItem)]
    points = [one for entry in entries for one in _at_points(entry, varied)]
    items[:] = [item for item in known if not isinstance(item, EntryItem)]
    if config.pluginmanager.hasplugin(WORKER):  # it has collected whole files, and is asked for single tests
        items += points
        return
    kept: dict[object, pytest.Item] = {one.nodeid: one for one in points}
    for item in items:
        parameters = _parameters(item)
        if _POINT in parameters and (not varied.variant or f"[{varied.variant}-" in item.nodeid):
            indices = getattr(item, "callspec").indices  # noqa: B009 - only functions have it
            own = (varied.name, _POINT)
            others = tuple(sorted((name, index) for name, index in indices.items() if name not in own))
            kept.setdefault((item.nodeid.partition("[")[0], parameters[_POINT].id, others), item)
    items[:] = kept.values()
    if len(kept) != len(varied.points):
        items.clear()  # nothing is estimated
        raise pytest.UsageError(_several(kept.values()) if kept else _not_there(varied, known))


def _at_points(item: EntryItem, varied: Variation) -> Iterator[pytest.Item]:
    """The entry with each of the values, on each of the cards."""
    from ..scenarios.grid import with_value

    name, _, variant = item.name.removesuffix("]").partition("[")
    if varied.variant not in ("", variant) or item.parent is None:
        return
    for point in varied.points:
        entry = with_value(item.entry, varied.name, point.value, point.gpu)
        end = "-".join(filter(None, (variant, point.id)))
        yield type(item).from_parent(item.parent, name=f"{name}[{end}]", entry=entry)


def _several(items: Iterable[pytest.Item]) -> str:
    without_point = (re.sub(r"-?\d+@[^@\]]+\]$", "]", item.nodeid).removesuffix("[]") for item in items)
    return f"these are several tests; name one of them: {', '.join(dict.fromkeys(without_point))}"


def _not_there(varied: Variation, items: Sequence[pytest.Item]) -> str:
    if any(_POINT in _parameters(item) for item in items):
        return f"the test has no variant [{varied.variant}]"
    known = sorted({fixture for item in items for fixture in getattr(item, "fixturenames", ())})
    return f"the test has no parameter or fixture {varied.name!r}; it has {', '.join(known) or 'none'}"


def _parameters(item: pytest.Item) -> dict[str, Any]:
    found: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    return found
