"""The settings of a session: ``[tool.membudget]`` in pyproject.toml, and the command line above it."""

from __future__ import annotations

import difflib
import math
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..components import METRICS
from ..errors import UsageMistake
from ..hardware.gpus import find_gpu
from .growth import parse_growth

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - the same parser under its earlier name
    import tomli as tomllib

TABLE = "[tool.membudget]"

#: The card that is modelled where nobody names one. Its size limits nothing then.
DEFAULT_GPU = "H100-80GB"
AUTO, OFF, REQUIRE = "auto", "off", "require"
STAND_IN, FAKE = "stand-in", "fake"
DEVICES = (AUTO, STAND_IN, FAKE)
MEASURES = (AUTO, OFF, REQUIRE)
ON, REFRESH = "on", "refresh"
CACHES = (ON, OFF, REFRESH)
#: Seconds after which the worker gives an item up.
DEFAULT_TIMEOUT = 300.0


@dataclass(frozen=True, slots=True)
class Settings:
    """What holds for all budgets of a session that do not say otherwise."""

    gpu: str | None = None
    """The card for budgets that name none; without it ``DEFAULT_GPU`` is modelled, without a limit."""
    metric: str = "allocated"
    timeout: float = DEFAULT_TIMEOUT
    processes: int | None = None
    """How many tests are estimated at once; None: as many as there are processors for this process."""
    device: str = AUTO
    """What estimates are made on: ``stand-in``, ``fake``, or ``auto`` for the first wherever it can run."""
    measure: str = AUTO
    """``auto``: where CUDA is; ``off``; ``require``: a budget that was not measured fails."""
    cache: str = ON
    """``on``: estimates of earlier sessions are used where nothing has changed; ``off``; ``refresh``: all
    are made anew, and kept."""
    max_disagreement: str = "5%"
    """How far estimate and measurement may lie apart before the summary says so."""
    gpus_file: str | None = None
    """A file of custom GPUs, relative to pyproject.toml's folder."""
    gpus: Mapping[str, Any] | None = None
    """The same cards written in the table itself."""
    max_growth: str | None = None
    """What tests may grow by since the base of a comparison, where their marks do not say."""
    waivers: Any = None
    """Tests that may take more for a while, as they are written; ``comparison.waivers`` reads them."""

    @property
    def most_disagreement(self) -> float:
        """``max_disagreement`` as a fraction."""
        return float(self.max_disagreement.removesuffix("%")) / 100

    def marker_defaults(self) -> dict[str, Any]:
        """The defaults of the marker's arguments."""
        return {"gpu": self.gpu, "metric": self.metric, "max_growth": self.max_growth}


def load_settings(pyproject: Path, command_line: Mapping[str, Any]) -> Settings:
    """Settings from ``pyproject`` (which may be missing), overridden by ``command_line``'s values not None.

    Raises ``UsageMistake`` naming the file and the key, or the option.
    """
    values: dict[str, Any] = {}
    for key, value in settings_table(pyproject).items():
        values[key] = _checked(f"{pyproject}: {TABLE} {key} = {value!r}", key, value)
    for key, value in command_line.items():
        if value is not None:
            values[key] = _checked(f"--membudget-{key}={value}", key, value)
    return Settings(**values)


def settings_table(pyproject: Path) -> Mapping[str, Any]:
    """The table as it is written; empty where there is none."""
    if not pyproject.is_file():
        return {}
    try:
        document = tomllib.loads(pyproject.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageMistake(f"{pyproject} cannot be read for {TABLE}: {error}") from error
    tools = document.get("tool", {})
    table = tools.get("membudget", {}) if isinstance(tools, Mapping) else {}
    if not isinstance(table, Mapping):
        raise UsageMistake(f"{pyproject}: tool.membudget is {table!r}; write a table {TABLE}")
    return table


def _checked(where: str, key: str, value: object) -> object:
    if key not in Settings.__slots__:
        near = difflib.get_close_matches(key, Settings.__slots__, n=1)
        hint = f"did you mean {near[0]}?" if near else f"the keys are {', '.join(Settings.__slots__)}"
        raise UsageMistake(f"{where}: there is no key {key!r}; {hint}")
    if key == "gpu":
        try:
            return find_gpu(str(value)).name
        except UsageMistake as error:
            raise UsageMistake(f"{where}: {error}") from None
    if key == "metric" and value not in METRICS:
        raise UsageMistake(f"{where}: write one of {', '.join(map(repr, METRICS))}")
    if key == "measure" and value not in MEASURES:
        raise UsageMistake(f"{where}: write one of {', '.join(map(repr, MEASURES))}")
    if key == "device" and value not in DEVICES:
        raise UsageMistake(f"{where}: write one of {', '.join(map(repr, DEVICES))}")
    if key == "cache" and value not in CACHES:
        raise UsageMistake(f"{where}: write one of {', '.join(map(repr, CACHES))}")
    if key == "max_disagreement" and not _is_percentage(value):
        raise UsageMistake(f"{where}: write a percentage, as in max_disagreement = '5%'")
    if key == "max_growth":
        try:
            parse_growth(value)
        except ValueError as error:
            raise UsageMistake(f"{where}: {error}") from None
    if key == "processes" and not (type(value) is int and value > 0):
        raise UsageMistake(f"{where}: write how many tests may be estimated at once, as in processes = 2")
    if key == "timeout" and not _is_duration(value):
        raise UsageMistake(f"{where}: write seconds above 0, as in timeout = 300")
    return value


def _is_percentage(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"\d+(\.\d+)?%", value) is not None


def _is_duration(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < math.inf
