"""MemoryReport: JSON in and out."""

import json

import pytest

from pytest_membudget.caveats import LIBRARY, READ, Caveat
from pytest_membudget.memory_report import Holder, MemoryReport, PeakBytes, PhasePeak, Timeline

PEAK = PeakBytes(allocated_bytes=1536, active_bytes=2048, reserved_bytes=4096, device_bytes=8192)


def traced(**changes):
    values = {
        "kind": "traced",
        "device": "stand-in",
        "metric": "allocated",
        "peak": PEAK,
        "components": {"parameters": 1000, "activations": 500, "rounding": 36},
        "holders": (
            Holder(
                1000, 2, "parameters", "layers.*.weight", "src/model.py:41", "aten::empty", each_bytes=500
            ),
            Holder(500, 1, "activations", None, None, "aten::mm", "x = self.proj(x)", phase="forward"),
        ),
        "phase": "forward",
        "other_phases": (
            PhasePeak(
                "backward",
                1024,
                {"gradients": 1000, "rounding": 24},
                (Holder(1000, 1, "gradients", "w", None, "aten::mm", phase="backward"),),
            ),
        ),
        "rank": 3,
        "caveats": (
            Caveat(READ, "src/model.py:50 reads a bool value (once): taken to be False"),
            Caveat(LIBRARY, "cufftXtMakePlanMany"),
        ),
        "seconds": 1.25,
    }
    return MemoryReport(**{**values, **changes})


@pytest.mark.parametrize(
    ("metric", "peak_bytes"), [("allocated", 1536), ("active", 2048), ("reserved", 4096), ("device", 8192)]
)
def test_the_peak_is_that_of_its_metric(metric, peak_bytes):
    assert traced(metric=metric).peak_bytes == peak_bytes


def test_a_report_comes_back_from_json_as_it_was():
    report = traced()
    assert MemoryReport.from_json(json.loads(json.dumps(report.to_json()))) == report


def test_the_host_is_a_report_inside_the_report():
    report = traced(host=traced(kind="traced", holders=(), rank=3))
    back = MemoryReport.from_json(json.loads(json.dumps(report.to_json())))
    assert back == report
    assert back.host.components["parameters"] == 1000


def test_json_has_the_keys_that_other_tools_read():
    assert traced().to_json() == {
        "kind": "traced",
        "device": "stand-in",
        "rank": 3,
        "metric": "allocated",
        "peak": {
            "allocated_bytes": 1536,
            "active_bytes": 2048,
            "reserved_bytes": 4096,
            "device_bytes": 8192,
        },
        "components": {"parameters": 1000, "activations": 500, "rounding": 36},
        "holders": [
            {
                "bytes": 1000,
                "count": 2,
                "component": "parameters",
                "module": "layers.*.weight",
                "location": "src/model.py:41",
                "operator": "aten::empty",
                "source": None,
                "each_bytes": 500,
                "phase": "",
                "split_by": None,
            },
            {
                "bytes": 500,
                "count": 1,
                "component": "activations",
                "module": None,
                "location": None,
                "operator": "aten::mm",
                "source": "x = self.proj(x)",
                "each_bytes": None,
                "phase": "forward",
                "split_by": None,
            },
        ],
        "host": None,
        "caveats": [
            {
                "cause": "read",
                "kind": "assumed",
                "text": "src/model.py:50 reads a bool value (once): taken to be False",
            },
            {
                "cause": "library",
                "kind": "missing",
                "text": "cufftXtMakePlanMany",
            },
        ],
        "seconds": 1.25,
        "timeline": None,
        "phase": "forward",
        "variants": [],
        "variant_seconds": [],
        "held": None,
        "margin": 0.0,
        "other_phases": [
            {
                "phase": "backward",
                "peak_bytes": 1024,
                "components": {"gradients": 1000, "rounding": 24},
                "holders": [
                    {
                        "bytes": 1000,
                        "count": 1,
                        "component": "gradients",
                        "module": "w",
                        "location": None,
                        "operator": "aten::mm",
                        "source": None,
                        "each_bytes": None,
                        "phase": "backward",
                        "split_by": None,
                    }
                ],
            }
        ],
    }


def test_a_timeline_comes_back_from_json_as_it_was():
    timeline = Timeline((0, 3, 9), {"inputs": (0, 512, 0)}, 3, 0, ((1, "forward"), (5, "backward")))
    report = traced(timeline=timeline)
    assert MemoryReport.from_json(json.loads(json.dumps(report.to_json()))) == report
