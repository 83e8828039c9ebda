"""The shapes of report.json: its keys, their values, and the defaults of missing ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...budgets.verdict import VERDICTS
from ...components import METRICS
from ...memory_report import PHASES
from ...results.comparison import STATUSES
from ...results.lock import LOCK_STATUSES
from ...user_input.kinds import FLAG, choice, number, whole
from .json_shapes import MOST_BYTES, JsonList, JsonShape, Keys, MapOf, Maybe, Of, Text

SIZE = Of(whole(0, most=MOST_BYTES))
_CHANGE = Of(whole(-MOST_BYTES, most=MOST_BYTES))
_NUMBER = Of(number(1, is_included=True, below=1e15))
_FLAG = Of(FLAG)
_NAME = Text(500)
WORD = Text(40, r"[a-z][a-z0-9_-]*", "must be a word of small letters, as in optimizer_states")
_LINES = Text(200_000, lines=True)
_PATH = Text(1000)
_PLACE = Maybe(_PATH)
_PHASE = Of(choice(PHASES))


def _none() -> None:
    return None


_OPTIONAL_PLACE: tuple[JsonShape, Callable[[], Any]] = (_PLACE, _none)
_TIMELINE = Keys(
    {
        "moments": JsonList(SIZE, 2000),
        "components": MapOf(WORD, JsonList(SIZE, 2000)),
        "peak_moment": SIZE,
    },
    {
        "within_bytes": (SIZE, int),
        "phases": (JsonList(JsonList(lambda value, path: value, 2), 100), list),
    },
)
_HOLDER = Keys(
    {"bytes": SIZE, "count": SIZE, "component": WORD, "operator": _NAME},
    {
        "module": _OPTIONAL_PLACE,
        "location": _OPTIONAL_PLACE,
        "source": _OPTIONAL_PLACE,
        "each_bytes": (Maybe(SIZE), _none),
        "phase": (Text(20), str),
    },
)
_PEAK = Keys({f"{name}_bytes": SIZE for name in ("allocated", "active", "reserved", "device")})
_FIGURE_KEYS: Mapping[str, JsonShape] = {
    "kind": WORD,
    "rank": Of(whole(0, most=10**6)),
    "metric": Of(choice((*METRICS, "active"))),
    "peak": _PEAK,
    "components": MapOf(WORD, _CHANGE),
    "holders": JsonList(_HOLDER),
}
_CAVEAT = Keys({"kind": WORD, "text": _LINES}, {"bound_bytes": (Maybe(SIZE), _none)})
_PHASE_PEAK = Keys(
    {"phase": _PHASE, "peak_bytes": SIZE, "components": MapOf(WORD, _CHANGE), "holders": JsonList(_HOLDER)}
)
_FIGURE_MORE: dict[str, tuple[JsonShape, Callable[[], Any]]] = {
    "assumptions": (JsonList(_LINES), list),
    "not_modelled": (JsonList(_LINES), list),
    "caveats": (Maybe(JsonList(_CAVEAT)), _none),
    "seconds": (_NUMBER, float),
    "timeline": (Maybe(_TIMELINE), _none),
    "device": (Text(20), str),
    "phase": (Of(choice(("", *PHASES))), str),
    "other_phases": (JsonList(_PHASE_PEAK, 10), list),
}
_HOST = Keys(_FIGURE_KEYS, _FIGURE_MORE)
_FIGURE = Keys(_FIGURE_KEYS, {**_FIGURE_MORE, "host": (Maybe(_HOST), _none)})
_BUDGET = Keys(
    {},
    {
        "gib": (Maybe(_NUMBER), _none),
        "gpus": (Of(whole(1, most=10**6)), lambda: 1),
        "ranks": (Maybe(JsonList(Of(whole(0, most=10**6)), 10**6)), _none),
        "gpu": (_PLACE, _none),
        "metric": (WORD, lambda: "allocated"),
        "host_gib": (Maybe(_NUMBER), _none),
        "components": (MapOf(WORD, _NUMBER), dict),
        "max_growth": (_PLACE, _none),
        "reason": (Maybe(_LINES), _none),
    },
)
_FINDING = Keys(
    {"bytes": _CHANGE, "component": WORD},
    {
        "module": _OPTIONAL_PLACE,
        "location": _OPTIONAL_PLACE,
        "base_location": _OPTIONAL_PLACE,
        "operator": _OPTIONAL_PLACE,
        "lines": (Of(whole(1, most=10**9)), lambda: 1),
        "largest_bytes": (Maybe(_CHANGE), _none),
        "source": _OPTIONAL_PLACE,
        "phase": (Text(20), str),
    },
)
_MOVED_PEAK = Keys(
    {"head": _PHASE, "base": _PHASE, "compared": _PHASE, "head_bytes": SIZE, "base_bytes": SIZE}
)
_VERSION = Keys({"name": _NAME}, {"base": _OPTIONAL_PLACE, "head": _OPTIONAL_PLACE})
_COMPARISON = Keys(
    {"status": Of(choice(STATUSES))},
    {
        "reason": (_LINES, str),
        "base_bytes": (Maybe(SIZE), _none),
        "head_bytes": (Maybe(SIZE), _none),
        "growth_bytes": (_CHANGE, int),
        "suggested_gib": (Maybe(_NUMBER), _none),
        "input_factor": (Maybe(_NUMBER), _none),
        "activation_factor": (Maybe(_NUMBER), _none),
        "moved_peak": (Maybe(_MOVED_PEAK), _none),
        "findings": (JsonList(_FINDING, 1000), list),
        "resized": (JsonList(_FINDING, 1000), list),
        "base_components": (Maybe(MapOf(WORD, _CHANGE)), _none),
        "base_timeline": (Maybe(_TIMELINE), _none),
        "distributions": (JsonList(_VERSION, 100), list),
    },
)
_ADVICE = Keys(
    {
        "figure_bytes": SIZE,
        "limit_bytes": SIZE,
        "trials": JsonList(Keys({"change": WORD, "write": Text(500), "bytes": SIZE}), 100),
        "untried": JsonList(WORD, 100),
    }
)
_LOCK = Keys(
    {"status": Of(choice(LOCK_STATUSES)), "reason": _LINES},
    {
        "entry": (
            Maybe(
                Keys(
                    {
                        "bytes": SIZE,
                        "metric": WORD,
                        "components": MapOf(WORD, _CHANGE),
                        "gpus": Of(whole(1, most=10**6)),
                        "gpu": _NAME,
                        "device": _NAME,
                        "torch": _NAME,
                    }
                )
            ),
            _none,
        ),
        "limit_bytes": (Maybe(SIZE), _none),
        "changes": (JsonList(_NAME, 100), list),
    },
)
_ROW = Keys(
    {
        "nodeid": Text(10_000),
        "file": Text(1000),
        "line": Of(whole(0, most=10**9)),
        "verdict": Of(choice(VERDICTS)),
        "reason": _LINES,
        "estimates": JsonList(_FIGURE),
    },
    {
        "budget": (Maybe(_BUDGET), _none),
        "limit_bytes": (Maybe(SIZE), _none),
        "details": (_LINES, str),
        "measurements": (JsonList(_FIGURE), list),
        "not_measured": (_LINES, str),
        "measured_on": _OPTIONAL_PLACE,
        "raised": (_FLAG, bool),
        "cached": (_FLAG, bool),
        "rank": (Maybe(Of(whole(0, most=10**6))), _none),
        "host_bytes": (Maybe(SIZE), _none),
        "selected": (_FLAG, bool),
        "expected": (_FLAG, bool),
        "without_strict": (Maybe(Of(choice(VERDICTS))), _none),
        "comparison": (Maybe(_COMPARISON), _none),
        "advice": (Maybe(_ADVICE), _none),
        "lock": (Maybe(_LOCK), _none),
    },
)


def _named(key: str) -> JsonShape:
    """A text, or an object that has the text under ``key`` and may have a reason."""
    full = Keys({key: Text(10_000)}, {"reason": (_LINES, str)})

    def shape(value: object, path: str) -> Any:
        return full({key: value} if isinstance(value, str) else value, path)

    return shape


_HEAD_COMPARISON = Keys(
    {},
    {
        "base": (
            Maybe(Keys({}, {"ref": _OPTIONAL_PLACE, "commit": _OPTIONAL_PLACE})),
            _none,
        ),
        "removed": (JsonList(_named("nodeid"), 100_000), list),
        "skipped": (JsonList(Text(10_000), 100_000), list),
        "unused_waivers": (JsonList(_named("test"), 10_000), list),
        "distributions": (JsonList(_VERSION), list),
    },
)
DOCUMENT = Keys(
    {"schema_version": SIZE, "tests": JsonList(_ROW, 100_000)},
    {
        "tool": (
            Keys({}, {"version": _OPTIONAL_PLACE, "testing": (_FLAG, bool)}),
            lambda: {"version": None, "testing": False},
        ),
        "torch": (
            Keys({}, {"version": _OPTIONAL_PLACE, "alloc_conf": _OPTIONAL_PLACE}),
            lambda: {"version": None, "alloc_conf": None},
        ),
        "git": (
            Maybe(
                Keys(
                    {},
                    {
                        "head": _OPTIONAL_PLACE,
                        "dirty": (Maybe(_FLAG), _none),
                        "files": (MapOf(_PATH, _PATH, 10_000), dict),
                    },
                )
            ),
            _none,
        ),
        "comparison": (Maybe(_HEAD_COMPARISON), _none),
        "distributions": (Maybe(MapOf(_NAME, _NAME, 10_000)), _none),
    },
)
