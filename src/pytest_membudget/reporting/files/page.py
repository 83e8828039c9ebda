"""A report as one HTML file with charts of memory over the step, drawn by plotly.js without network."""

import base64
import hashlib
from collections.abc import Iterator, Sequence
from functools import partial
from importlib import resources
from typing import Any

from ...components import COMPONENTS
from ...errors import UsageMistake
from ...memory_report import Timeline
from ...results.comparison import ELSEWHERE, BaseFigure
from ...units import gib_text
from ..causes import size_text, staying, title_of, trial_texts
from ..document import Document
from ..links import NO_LINKS, Links, place_in
from ..status import ReportedTest, headline, legend, reported_tests
from .escaping import script_json

_NEEDED = "the HTML report needs plotly and jinja2: pip install 'pytest-membudget[html]'"
#: Most holders and findings that the tables of a test have.
_CAUSES = 40
#: A budget so many times larger than the peak is not drawn: the chart would be flat.
_FAR = 2.5
#: Paul Tol's schemes bright and light (personal.sron.nl/~pault, version 3.2): distinguishable by most
#: eyes, on a light and on a dark page.
_COLOURS = {
    "parameters": "#4477AA",
    "frozen_parameters": "#77AADD",
    "buffers": "#DDDDDD",
    "gradients": "#EE8866",
    "optimizer_states": "#44BB99",
    "activations": "#EEDD88",
    "inputs": "#99DDFF",
    "temporaries": "#EE6677",
    "collectives": "#AA3377",
    "workspaces": "#AAAA00",
    "unattributed": "#BBBBBB",
}


def page(document: Document, links: Links = NO_LINKS) -> str:
    """The whole file, with ``links`` of lines. Raises ``UsageMistake`` where the libraries are missing."""
    try:
        import jinja2
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise UsageMistake(_NEEDED) from None
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    found = reported_tests(document)
    scripts = [get_plotlyjs(), _asset("report.js")]
    return environment.from_string(_asset("report.html.j2")).render(
        headline=headline(found),
        document=document,
        comparison=document.comparison,
        tests=found,
        legend=list(legend(one.result for one in found)),
        charts=script_json([*_charts(found)]),
        scripts=scripts,
        script_hashes=[_hash(script) for script in scripts],
        style=_asset("report.css"),
        # what the template calls, which escapes all texts itself
        trial_texts=partial(trial_texts, code=str),
        title_of=title_of,
        staying=staying,
        place_in=place_in,
        timeline_of=_timeline,
        components_of=_components,
        url=links.url,
        gib=gib_text,
        size=size_text,
        most=_CAUSES,
        elsewhere=ELSEWHERE,
    )


def _asset(name: str) -> str:
    return resources.files(__package__).joinpath("assets", name).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    """The hash of a script for a Content-Security-Policy, under which no other script runs."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _timeline(one: ReportedTest) -> Timeline | None:
    """The timeline of the figure that is shown; for a measurement, which has none, the estimate's."""
    figures = [figure for figure in (one.result.figure, *one.result.estimates) if figure is not None]
    return next((figure.timeline for figure in figures if figure.timeline is not None), None)


def _charts(found: Sequence[ReportedTest]) -> Iterator[dict[str, Any]]:
    """The charts that report.js draws, of the tests with a timeline."""
    for number, one in enumerate(found):
        timeline = _timeline(one)
        if one.result.figure is not None and timeline is not None:
            yield _chart(one, timeline, number)


def _chart(one: ReportedTest, timeline: Timeline, number: int) -> dict[str, Any]:
    limit, peak = one.result.limit_bytes, one.peak_bytes or 0
    point = timeline.moments.index(timeline.peak_moment)
    base = _base_of(one)
    before = base.timeline if base is not None else None
    return {
        "id": f"chart-{number}",
        "moments": timeline.moments,
        "components": [
            {"name": name, "colour": _COLOURS.get(name, "#888888"), "bytes": timeline.components[name]}
            for name in [*COMPONENTS, *sorted({*timeline.components} - {*COMPONENTS})]
            if name in timeline.components
        ],
        "peak": {
            "moment": timeline.peak_moment,
            "bytes": sum(sizes[point] for sizes in timeline.components.values()),
        },
        "limit": limit if limit is not None and limit <= _FAR * peak else None,
        "phases": timeline.phases,
        "base": _base_line(before, timeline.moments[-1]) if before is not None else None,
    }


def _base_of(one: ReportedTest) -> BaseFigure | None:
    return one.result.comparison.base if one.result.comparison is not None else None


def _base_line(base: Timeline, last: int) -> dict[str, Any]:
    """The base's total, scaled to the length of the head's timeline."""
    stretch = last / max(1, base.moments[-1])
    return {
        "moments": [moment * stretch for moment in base.moments],
        "bytes": [sum(sizes) for sizes in zip(*base.components.values(), strict=True)],
    }


def _components(one: ReportedTest) -> list[dict[str, Any]]:
    """The components at the peak, with those of the base if they are known."""
    figure, base = one.result.figure, _base_of(one)
    if figure is None:
        return []
    before = base.components if base is not None else {}
    sizes = {name: figure.components.get(name, 0) for name in (*figure.components, *before)}
    return [
        {
            "name": name,
            "colour": _COLOURS.get(name, "#888888"),
            "bytes": size,
            "share": max(0.0, size / figure.peak_bytes),
            "base": before.get(name, 0) if base is not None else None,
        }
        for name, size in sizes.items()
        if size or before.get(name)
    ]
