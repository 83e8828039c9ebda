"""MemoryReport: JSON in and out."""

import json
from importlib import resources

from pytest_membudget.caveats import LIBRARY, READ, Caveat
from pytest_membudget.memory_report import Holder, MemoryReport, PhasePeak

PEAK = {"allocated": 1536, "reserved": 4096, "device": 8192}


def traced(**changes):
    values = {
        "kind": "traced",
        "device": "stand-in",
        "metric": "allocated",
        "peak": PEAK,
        "components": {"parameters": 1000, "activations": 500, "rounding": 36},
        "holders": (
            Holder(
                1000, 2, "parameters", "layers.*.weight", "src/model.py:41", "aten::empty", largest_bytes=500
            ),
            Holder(500, 1, "activations", None, None, "aten::mm", "x = self.proj(x)", phase="forward"),
        ),
        "phase": "forward",
        "phases": (
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


def test_a_report_comes_back_from_json_as_it_was():
    report = traced()
    assert MemoryReport.from_json(json.loads(json.dumps(report.to_json()))) == report


def test_json_has_every_key_of_the_published_schema_though_nothing_is_there():
    file = resources.files("pytest_membudget").joinpath("schemas/report.schema.json")
    published = json.loads(file.read_text(encoding="utf-8"))["definitions"]
    report = traced().to_json()
    [phase] = report["phases"]
    parts = {"MemoryReport": [report], "PhasePeak": [phase]}
    parts |= {"Holder": [*report["holders"], *phase["holders"]], "Caveat": report["caveats"]}

    for name, some in parts.items():
        assert all(set(one) == set(published[name]["properties"]) for one in some), name
    assert report["caveats"][1] == {"cause": "library", "kind": "missing", "text": "cufftXtMakePlanMany"}
