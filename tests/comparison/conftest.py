"""Rows and figures to compare: the smallest that are whole."""

import copy

import pytest

GIB = 2**30
MIB = 2**20


def holder(size, component="activations", module="blocks.*", location="model.py:10", **more):
    """One of a figure's holders."""
    return {
        "bytes": size,
        "count": 1,
        "component": component,
        "module": module,
        "location": location,
        "operator": "aten::mm",
        "source": None,
        **more,
    }


def figure_of(*holders, rest=0, kind="traced", metric="allocated"):
    """A figure whose components are what ``holders`` hold, and ``rest`` bytes of rounding."""
    components = {}
    for one in holders:
        components[one["component"]] = components.get(one["component"], 0) + one["bytes"]
    components["rounding"] = rest
    total = sum(components.values())
    return {
        "kind": kind,
        "rank": 0,
        "metric": metric,
        "peak": {f"{name}_bytes": total for name in ("allocated", "active", "reserved", "device")},
        "components": components,
        "holders": sorted(holders, key=lambda one: -one["bytes"]),
        "timeline": None,
    }


def row_of(size, verdict="within", budget=None, **changes):
    """A row whose test takes ``size`` bytes."""
    budget = {"gib": 5, "gpus": 1, "gpu": None, "metric": "allocated", "max_growth": None, **(budget or {})}
    row = {
        "nodeid": "test_a.py::test_a",
        "verdict": verdict,
        "reason": "as it is",
        "budget": budget,
        "rank": None,
        "estimates": [figure_of(holder(size))],
        "measurements": [],
    }
    return {**copy.deepcopy(row), **changes}


@pytest.fixture
def figure():
    return figure_of


@pytest.fixture
def hold():
    return holder


@pytest.fixture
def row():
    return row_of
