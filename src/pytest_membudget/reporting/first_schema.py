"""A report.json of version 1 as version 2 has it: states, and the causes of caveats, had other names."""

from collections.abc import Iterator
from typing import Any, Final

from ..components import ACTIVATIONS, INPUTS
from ..results.comparison import COMPARED, GROWN, NEW, NOT_COMPARABLE, PEAK, UNCHANGED, times_as_large
from ..units import gib_text

VERSION: Final = 1
#: Statuses that said whether a test fails, and not whether it takes more; what they are in ``allowed``.
_VERDICTS: Final = {"new-over": None, "still-over": True, "waived": True, "expired-waiver": False}
_FACTORS: Final = {"input": INPUTS, "activation": ACTIVATIONS}
_LOCK_STATES: Final = {"kept": UNCHANGED, "recorded": NEW, "not-comparable": NOT_COMPARABLE}


def upgrade(document: dict[str, Any]) -> None:
    """Change ``document`` to version 2, in place; what is no report stays as it is, and is refused later."""
    document["schema_version"] = VERSION + 1
    for tool in _objects([document.pop("tool", None)]):
        document["testing"] = tool.get("testing", False)
    for torch in _objects([document.get("torch")]):
        document["torch"], document["alloc_conf"] = torch.get("version"), torch.get("alloc_conf")
    for git in _objects([document.get("git")]):
        git["commit"] = git.pop("head", None)
    for session in _objects([document.get("comparison")]):
        for base in _objects([session.get("base")]):
            session["base"], session["commit"] = base.get("ref"), base.get("commit")
        _name_versions(session)
    for row in _objects(document.get("tests")):
        row["location"] = f"{row.get('file')}:{row.get('line')}"
        for comparison in _objects([row.get("comparison")]):
            _upgrade_comparison(comparison)
        for advice in _objects([row.get("advice")]):
            advice["bytes"] = advice.get("figure_bytes")
            tried = [(one.get("write"), one.get("bytes")) for one in _objects(advice.get("trials"))]
            untried = [(name, None) for name in _list(advice.get("untried"))]
            advice["trials"] = {name: size for name, size in (*tried, *untried) if isinstance(name, str)}
        for lock in _objects([row.get("lock")]):
            lock["recorded"], lock["base"] = lock.get("status") == "recorded", lock.get("entry")
            lock["status"] = _LOCK_STATES.get(str(lock.get("status")), lock.get("status"))
        for name in ("estimates", "measurements"):
            for figure in _objects(row.get(name)):
                figure["variants"] = [one.get("peak_bytes") for one in _objects(figure.get("variants"))]
                for report in _objects([figure, figure.get("host")]):
                    _upgrade_report(report)
        for figure in _objects(row.get("measurements")):
            figure["device"] = row.get("measured_on") or figure.get("device", "")


def _upgrade_report(report: dict[str, Any]) -> None:
    for peak in _objects([report.get("peak")]):
        report["peak"] = {name.removesuffix("_bytes"): size for name, size in peak.items()}
    for caveat in _objects(report.get("caveats")):
        caveat["cause"] = caveat.get("kind")
    for holder in _objects(report.get("holders")):
        holder["largest_bytes"] = holder.get("each_bytes")
    report["phases"] = [
        {**phase, "bytes": phase.get("peak_bytes")} for phase in _objects(report.get("other_phases"))
    ]


def _name_versions(comparison: dict[str, Any]) -> None:
    changes = _objects(comparison.get("distributions"))
    comparison["distributions"] = {one["name"]: one for one in changes if isinstance(one.get("name"), str)}


def _upgrade_comparison(comparison: dict[str, Any]) -> None:
    _upgrade_figures(comparison)
    status, growth_bytes = comparison.get("status"), comparison.get("growth_bytes")
    if status == GROWN:
        comparison["allowed"] = False
    elif status == "not-comparable":
        comparison["status"] = NOT_COMPARABLE
    elif status == UNCHANGED or (isinstance(status, str) and status in _VERDICTS):
        comparison["allowed"] = _VERDICTS.get(status)
        has_grown = isinstance(growth_bytes, int) and growth_bytes > 0
        is_new = status == "new-over" and comparison.get("base_bytes") is None
        comparison["status"] = NEW if is_new else GROWN if has_grown else UNCHANGED


def _upgrade_figures(comparison: dict[str, Any]) -> None:
    """What the two sides take, and what explains the difference."""
    base = {
        "bytes": comparison.get("base_bytes"),
        "components": comparison.get("base_components") or {},
        "timeline": comparison.get("base_timeline"),
    }
    comparison["base"] = base if base["bytes"] is not None else None
    comparison["bytes"] = comparison.get("head_bytes")
    _name_versions(comparison)
    for finding in _objects(comparison.get("findings")):
        finding["base"], finding["count"] = finding.get("base_location"), finding.get("lines", 1)
    comparison["differences"] = [*_differences(comparison)]


def _differences(comparison: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for one, kind in _FACTORS.items():
        factor = comparison.get(f"{one}_factor")
        if isinstance(factor, int | float):
            yield {"kind": kind, "head": times_as_large(factor)}
    for moved in _objects([comparison.get("moved_peak")]):
        yield {"kind": PEAK, "head": moved.get("head"), "base": moved.get("base")}
        sizes = {
            side: gib_text(size)
            for side in ("head", "base")
            if isinstance(size := moved.get(f"{side}_bytes"), int)
        }
        yield {"kind": COMPARED, **sizes, "details": [moved.get("compared")]}


def _objects(values: object) -> Iterator[dict[str, Any]]:
    yield from (one for one in _list(values) if isinstance(one, dict))


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
