"""The settings of a session: ``[tool.membudget]`` in pyproject.toml, and the command line above it."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from ..components import METRICS
from ..errors import UsageMistake
from ..names import ADVICES, AUTO, OFF, ON, SNAPSHOTS
from ..user_input.fields import Table, described, fields_of, read_fields
from ..user_input.kinds import TABLE as ANY_TABLE
from ..user_input.kinds import choice, list_of, number, text
from ..user_input.nodes import TOML, Mistakes, Node, Syntax, nodes_of
from .budget import CARD_NAME, GROWTH

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - the same parser under its earlier name
    import tomli as tomllib

TABLE: Final = "[tool.membudget]"
_SYNTAX: Final = replace(TOML, before=f"{TABLE} ")
_OPTION: Final = Syntax("--membudget-{}={}", "{}={}", str)

#: The card that is modelled if none is named; its size then limits nothing.
DEFAULT_GPU: Final = "H100-80GB"


@dataclass(frozen=True, slots=True)
class Settings:
    """The defaults of all budgets of a session, and how they are checked."""

    gpu: str | None = described(
        "The card for budgets that name none.",
        None,
        f"an {DEFAULT_GPU} is modelled, without a limit",
        kind=CARD_NAME,
    )
    metric: str = described("The metric of budgets whose marks name none.", "allocated", kind=choice(METRICS))
    timeout: float = described(
        "Seconds of processor time for the estimate of one test, and for its measurement.",
        300.0,
        kind=number(300, unit="seconds"),
    )
    advice: str = described(
        "Whether tests over their budgets are run again with changes that may reduce memory.",
        ON,
        kind=choice(ADVICES),
    )
    strict: bool = described("Budgets that were not checked, or not all of them, are failures.", False)
    snapshots: str = described(
        "Of which tests `--membudget-report` also writes snapshots: of all, or of those on one GPU that are "
        "over their budgets, which are run again.",
        OFF,
        kind=choice(SNAPSHOTS),
    )
    gpus: Node | None = described("Custom GPUs, by name.", None, kind=ANY_TABLE)
    max_growth: str | None = described(
        "What tests may grow by since the base, for marks that set none.", None, kind=GROWTH
    )
    tolerance: str = described(
        "What tests may take more or less than their entries in the lock file.", "1%", kind=GROWTH
    )
    tests: tuple[str, ...] = described(
        "Tests that are estimated though they have no mark: files, folders or node ids, with `*` and `?`. "
        "`--membudget=all` selects every test function.",
        (),
        "marked tests alone",
        kind=list_of(text("tests/train/*")),
    )
    lift_cuda_skips: bool = described(
        "Skip marks of tests with budgets are evaluated where CUDA is available: guards against a missing "
        "GPU skip nothing.",
        False,
    )
    measure: str = AUTO
    """``--membudget-measure``, as ``cache``: of the command line alone."""
    cache: str = ON

    def marker_defaults(self) -> dict[str, Any]:
        """The defaults of the marker's arguments."""
        return {"gpu": self.gpu, "metric": self.metric, "max_growth": self.max_growth}


SETTINGS: Final[Table] = Table(fields_of(Settings), what="key")


def load_settings(pyproject: Path, command_line: Mapping[str, Any]) -> Settings:
    """Settings from ``pyproject`` (which may be missing), overridden by ``command_line``'s values not None.

    Raises ``UsageMistake`` with every mistake: the file, the table's line and the key, or the option.
    """
    mistakes = Mistakes()
    table = settings_table(pyproject)
    values = read_fields(SETTINGS, table.value, table, "", mistakes) or {}
    for name, value in command_line.items():
        if value is not None:
            option = Node(value, f"--membudget-{name}={value}", syntax=_OPTION)
            known = SETTINGS.by_name.get(name)
            values[name] = known.kind.read(option, name, mistakes) if known is not None else value
    mistakes.raise_all()
    return Settings(**values)


def settings_table(pyproject: Path) -> Node:
    """The table as it is written; empty where there is none."""
    file = str(pyproject)
    if not pyproject.is_file():
        return Node({}, file)
    try:
        text = pyproject.read_text(encoding="utf-8")
        document = tomllib.loads(text)
    except (OSError, ValueError) as error:  # of tomllib, of the encoding, of a number with too many digits
        raise UsageMistake(f"{pyproject} cannot be read for {TABLE}: {error}") from error
    tools = document.get("tool", {})
    table = tools.get("membudget", {}) if isinstance(tools, Mapping) else {}
    if not isinstance(table, Mapping):
        raise UsageMistake(f"{pyproject}: tool.membudget is {table!r}; write a table {TABLE}")
    before, found, _ = text.partition(TABLE[:-1])
    line = before.count("\n") + 1 if found else 1  # the table's: tomllib has no lines of keys
    return nodes_of(table, Node(None, file, line, syntax=_SYNTAX))
