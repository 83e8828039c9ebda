"""Operators on a card next to their estimates: what differs is told, with what the estimate names."""

import json

from benchmarks.operator_peaks import differences, main

MEASURED = {name: {"allocated_bytes": 100} for name in ("equal", "larger", "missing")}


def row(name, estimated_bytes=None, *kinds):
    estimates = [] if estimated_bytes is None else [
        {"peak": {"allocated": estimated_bytes}, "caveats": [{"cause": kind} for kind in kinds]}
    ]  # fmt: skip
    return {"nodeid": f"tests/gpu/test_operators.py::test_twice[{name}]", "estimates": estimates}


def test_differences_are_told_and_equal_ones_counted():
    rows = [row("equal", 100), row("larger", 2000, "method", "library"), row("missing"), row("unknown", 1)]

    equal, lines = differences(MEASURED, {"tests": rows})

    assert equal == 1
    assert lines == [
        "larger: 100 bytes measured, 2,000 estimated; named: library",
        "missing: 100 bytes measured, no estimate",
    ]


def test_nothing_compared_is_no_success(tmp_path, capsys):
    files = tmp_path / "measured.json", tmp_path / "report.json"
    files[0].write_text(json.dumps({"operators": MEASURED}))
    files[1].write_text(json.dumps({"tests": []}))

    assert main(["--measured", str(files[0]), "--report", str(files[1])]) == 1
    assert capsys.readouterr().out == "0 operators are estimated as they were measured\n"
