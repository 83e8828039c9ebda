"""Results and figures to compare: the smallest that are whole."""

import pytest

from pytest_membudget.budgets.budget import Budget
from pytest_membudget.components import METRICS
from pytest_membudget.memory_report import Holder, MemoryReport
from pytest_membudget.results.test_result import TestResult

GIB = 2**30
MIB = 2**20


def holder(size, component="activations", module="blocks.*", location="model.py:10", **more):
    """One of a figure's holders."""
    given = {"count": 1, "operator": "aten::mm", **more}
    return Holder(bytes=size, component=component, module=module, location=location, **given)


def figure_of(*holders, rest=0, kind="traced", metric="allocated", device=""):
    """A figure whose components are what ``holders`` hold, and ``rest`` bytes of rounding."""
    components = {}
    for one in holders:
        components[one.component] = components.get(one.component, 0) + one.bytes
    components["rounding"] = rest
    total = sum(components.values())
    largest_first = tuple(sorted(holders, key=lambda one: -one.bytes))
    return MemoryReport(kind, metric, dict.fromkeys(METRICS, total), components, largest_first, device=device)


def row_of(size, verdict="within", budget=None, **changes):
    """The result of a test that takes ``size`` bytes."""
    given = {"estimates": (figure_of(holder(size)),), "reason": "as it is", **changes}
    return TestResult(
        "test_a.py::test_a", "test_a.py:1", verdict, budget=Budget(**{"gib": 5, **(budget or {})}), **given
    )


@pytest.fixture
def figure():
    return figure_of


@pytest.fixture
def hold():
    return holder


@pytest.fixture
def row():
    return row_of
