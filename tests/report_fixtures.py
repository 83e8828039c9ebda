"""Reports to write: the smallest that are whole, and what is changed in them."""

import copy
import json

import pytest

GIB = 2**30
MIB = 2**20

#: 3 GiB of parameters and 1 GiB of activations, less than whole MiB by nothing: 4 GiB with the rounding.
FIGURE = {
    "kind": "traced",
    "rank": 0,
    "metric": "allocated",
    "peak": {
        "allocated": 4 * GIB,
        "reserved": 5 * GIB,
        "device": 6 * GIB,
    },
    "components": {"parameters": 3 * GIB, "activations": GIB - 512, "rounding": 512},
    "holders": [
        {
            "bytes": 3 * GIB,
            "count": 2,
            "component": "parameters",
            "module": "layers.*.weight",
            "location": "src/model.py:41",
            "operator": "aten::empty",
        },
        {
            "bytes": GIB - 512,
            "count": 1,
            "component": "activations",
            "module": None,
            "location": None,
            "operator": "aten::mm",
        },
    ],
    "host": None,
    "seconds": 0.5,
    "timeline": {
        "moments": [0, 1, 4, 9],
        "components": {"parameters": [0, 3 * GIB, 3 * GIB, 0], "activations": [0, 0, GIB - 512, 0]},
        "peak_moment": 4,
        "phases": [[1, "forward"], [5, "backward"]],
    },
}
COMPARISON = {
    "status": "grown",
    "allowed": False,
    "reason": "",
    "bytes": 4 * GIB,
    "base": {"bytes": 3 * GIB},
    "findings": [
        {
            "bytes": GIB,
            "component": "activations",
            "module": "layers.*.mlp",
            "location": "src/model.py:57",
            "base": "src/model.py:55",
            "operator": "aten::gelu",
        }
    ],
}


def caveat_texts(report, *, missing=False):
    """The lines of *Taken for granted* of a figure in report.json, or of *Not modelled*."""
    return [one["text"] for one in report["caveats"] if (one["kind"] == "missing") == missing]


def changed(value, changes):
    """``value`` with other values at key paths, as in ``{"peak.allocated": 1}``."""
    value = copy.deepcopy(value)
    for path, new in changes.items():
        *steps, last = [int(step) if step.isdecimal() else step for step in path.split(".")]
        inner = value
        for step in steps:
            inner = inner[step]
        inner[last] = new
    return value


@pytest.fixture
def figure():
    """``figure({"rank": 3})`` is a figure of 4 GiB with changes at key paths."""
    return lambda changes=None: changed(FIGURE, changes or {})


@pytest.fixture
def comparison():
    """``comparison(status="new")`` is a test that took 3 GiB at the base: grown by 1 GiB, with changes."""

    def make(before=3 * GIB, **changes):
        base = {"bytes": before} if before is not None else None
        return changed({**COMPARISON, "base": base}, changes)

    return make


@pytest.fixture
def row():
    """``row(verdict="over")`` is a test of 4 GiB within its budget of 5, with changes."""

    def make(nodeid="tests/test_memory.py::test_step", **changes):
        return {
            "nodeid": nodeid,
            "location": "tests/test_memory.py:12",
            "budget": {"gib": 5, "gpus": 1, "metric": "allocated", "components": {}},
            "limit_bytes": 5 * GIB,
            "verdict": "within",
            "reason": "80% of its budget of 5 GiB",
            "details": "",
            "estimates": [copy.deepcopy(FIGURE)],
            "measurements": [],
            "not_measured": "no CUDA",
            "properties": [],
            **changes,
        }

    return make


@pytest.fixture
def over(row):
    """``over()`` is a test of 4 GiB that has a budget of 3, with changes."""

    def make(nodeid="tests/test_memory.py::test_over", **changes):
        budget = {"gib": 3, "gpus": 1, "metric": "allocated"}
        given = {"verdict": "over", "reason": "1.00 GiB over its budget of 3 GiB", "budget": budget}
        return row(nodeid, **{**given, "limit_bytes": 3 * GIB, **changes})

    return make


@pytest.fixture
def advice():
    """One change that was tried for a test of 4 GiB with a budget of 3: it is enough."""
    return {"bytes": 4 * GIB, "limit_bytes": 3 * GIB, "trials": {"AdamW(..., fused=True)": 3 * GIB}}


@pytest.fixture
def raw():
    """``raw(row(), row())`` is a report of these tests as report.json has it."""

    def make(*rows, **changes):
        return {
            "schema_version": 2,
            "torch": "2.13.0",
            "git": {"commit": "0123456789abcdef0123456789abcdef01234567", "dirty": False},
            "tests": list(rows),
            **changes,
        }

    return make


@pytest.fixture
def document(raw):
    """``document(row(), row())`` is such a report, read."""
    from pytest_membudget.reporting.document import checked_document

    return lambda *rows, **changes: checked_document(raw(*rows, **changes))


@pytest.fixture
def command(tmp_path, capsysbinary, monkeypatch):
    """``command(report, "--format=gitlab")`` runs the command: its status, output and errors."""
    from pytest_membudget.commands.main import main

    monkeypatch.setenv("COLUMNS", "1000")  # an error is one line

    def run(report, *arguments):
        path = tmp_path / "report.json"
        if isinstance(report, bytes):
            path.write_bytes(report)
        elif report is not None:
            path.write_text(json.dumps(report), encoding="utf-8")
        status = main(["report", str(path), *arguments])
        out, err = capsysbinary.readouterr()
        return status, out.decode(), err.decode()

    return run


#: What an attacker would put wherever a text can stand: HTML, Markdown, commands of GitHub, a terminal's.
HOSTILE = (
    "</script><script>alert(1)</script><img src=x onerror=alert(2)>--> | `x` \\| "
    "![a](http://evil.test/a.png) @everyone #1 [l](javascript:alert(3)) "
    "www.evil.test\n::error file=a,line=1::owned\r\n## head\n```\n~~~\n"
    "\x1b[2J\x1b]0;t\x07\u202etxet\u2028\ud800%0A%25{{7*7}}{% raw %}${{ github.token }}$(id)`id`"
)


@pytest.fixture
def hostile_report(raw, over, row, comparison, figure):
    """A report with the same hostile text wherever the format allows a text."""
    bad = figure({"caveats": [{"cause": cause, "text": HOSTILE} for cause in ("read", "later")]})
    for holder in bad["holders"]:
        holder.update(module=HOSTILE[:400], location=HOSTILE[:900], operator=HOSTILE[:400])
    findings = [{"bytes": GIB, "component": "activations"} | dict.fromkeys(
        ("module", "location", "base", "operator"), HOSTILE)]  # fmt: skip
    beside = comparison(
        allowed=None,
        reason=HOSTILE,
        findings=findings,
        distributions={HOSTILE[:400]: {"base": HOSTILE, "head": HOSTILE}},
    )
    advice = {"bytes": 2, "limit_bytes": 1, "trials": {HOSTILE[:400]: 1}}
    texts = {"location": HOSTILE[:900], "reason": HOSTILE, "details": HOSTILE, "not_measured": HOSTILE}
    budget = {"gib": 3, "gpu": HOSTILE, "max_growth": HOSTILE}
    return raw(
        over(HOSTILE, **texts, budget=budget, estimates=[bad], comparison=beside, advice=advice),
        row(HOSTILE + "2", **texts, verdict="error", estimates=[bad]),
        row(HOSTILE + "3", **texts, verdict="skipped", estimates=[]),
        row(
            HOSTILE + "4",
            **texts,
            comparison=comparison(status="not comparable", allowed=None, reason=HOSTILE),
        ),
        torch=HOSTILE,
        git={"commit": HOSTILE, "dirty": True},
        distributions={HOSTILE[:400]: HOSTILE[:400], "pytest-membudget": HOSTILE},
        comparison={
            "distributions": {HOSTILE[:400]: {"base": HOSTILE, "head": HOSTILE}},
            "base": HOSTILE,
            "commit": HOSTILE,
            "removed": [HOSTILE],
        },
    )
