"""Budget: the arguments of ``mem_budget``. Each argument is a field, declared here."""

import math
import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Final

from ..components import COMPONENTS, METRICS
from ..hardware.gpus import find_gpu
from ..json_object import Count, JsonObject, Word
from ..names import MARKER
from ..units import bytes_of_gib, parse_bytes
from ..user_input.fields import Table, described, fields_of
from ..user_input.kinds import choice, is_text, number, number_table, parsed, whole

GIB: Final = number(40, unit="GiB")
#: Four times what one published job has run on (Llama 3: 16,384 H100, arXiv:2407.21783): more is a typo.
_MOST_GPUS: Final = 65_536
_PERCENT: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*%\s*")


@dataclass(frozen=True, slots=True)
class Growth:
    """Growth that is allowed over a base figure: a share of it plus a size."""

    percent: float = 0.0
    size_bytes: int = 0

    def allowed_bytes(self, base_bytes: int) -> int:
        """The bytes that may be added to ``base_bytes``."""
        return math.floor(base_bytes * self.percent / 100) + self.size_bytes


def parse_growth(text: object) -> Growth:
    """``"2%"``, ``"256 MiB"`` or ``"2% + 64 MiB"``; ``ValueError`` says what to write instead."""
    if not isinstance(text, str):
        raise ValueError("write a text such as '2%', '256 MiB' or '2% + 64 MiB'")
    percent, size_bytes, seen = 0.0, 0, set()
    for part in text.split("+"):
        match = _PERCENT.fullmatch(part)
        kind = "percent" if match else "size"
        if kind in seen:
            raise ValueError(f"{text!r} names two of a kind; write '2%', '256 MiB' or '2% + 64 MiB'")
        seen.add(kind)
        if match:
            percent = float(match[1])
        else:
            try:
                size_bytes = parse_bytes(part)
            except ValueError:
                raise ValueError(f"{text!r} is no growth; write '2%', '256 MiB' or '2% + 64 MiB'") from None
    return Growth(percent, size_bytes)


def card_name(written: object) -> str:
    """The name of the card that ``written`` names; ``UsageMistake`` or ``ValueError`` if it names none."""
    if not isinstance(written, str) or not is_text(written):
        raise ValueError("write the name of a card, as in 'H100-80GB'")
    return find_gpu(written).name


def _growth(written: object) -> object:
    parse_growth(written)
    return written


CARD_NAME: Final = parsed("name of a card", card_name)
GROWTH: Final = parsed("share, size or both", _growth)


@dataclass(frozen=True, slots=True)
class Budget(JsonObject):
    """The limits of one test; without any the test is estimated, and counted as ``unset``."""

    gib: float | None = described("The budget a GPU, in GiB (2**30 bytes).", None, kind=GIB)
    gpus: Count = described(
        "How many ranks the test runs as, each on its own GPU.", 1, kind=whole(most=_MOST_GPUS)
    )
    gpu: str | None = described(
        "A card of the catalogue; without `gib` the budget is what it can hold.",
        None,
        "`[tool.membudget] gpu`",
        kind=CARD_NAME,
    )
    host_gib: float | None = described(
        "The budget of a machine's host memory, in GiB: what all of its ranks hold there together.",
        None,
        kind=GIB,
    )
    held_gib: float | None = described(
        "The budget of what is still allocated on a GPU when the test's body has ended, in GiB.",
        None,
        kind=GIB,
    )
    metric: Word = described("Which total is held to the budget.", "allocated", kind=choice(METRICS))
    components: Mapping[Word, float] = described(
        "Budgets of single components, in GiB a GPU.", {}, kind=number_table(COMPONENTS, GIB, "component")
    )
    max_growth: str | None = described(
        "What the test may grow by since the base of a comparison.", None, kind=GROWTH
    )

    @property
    def limit_bytes(self) -> int | None:
        """The limit of ``metric`` on each GPU: ``gib``, else what the card has; None without one."""
        return bytes_of_gib(self.gib) if self.gib is not None else self.capacity_bytes

    @property
    def capacity_bytes(self) -> int | None:
        """What the card has for ``metric``: ``device`` includes the CUDA context; None without a card."""
        if self.gpu is None:
            return None
        gpu = find_gpu(self.gpu)
        return gpu.total_bytes if self.metric == "device" else gpu.usable_bytes

    @property
    def is_of_card(self) -> bool:
        """Whether it is for what is on a GPU; else it is of host memory alone."""
        of_card = (self.gib, self.gpu, self.held_gib, self.components or None)
        return self.host_gib is None or any(limit is not None for limit in of_card)


ARGUMENTS: Final[Table] = Table(fields_of(Budget), what="argument")

SIGNATURE: Final = "{}(*, {})".format(
    MARKER,
    ", ".join(f"{one.name}={None if one.default is MISSING else one.default!r}" for one in fields(Budget)),
)
#: For ``pytest --markers``; the reference has the same signature.
HELP: Final = (
    f"{SIGNATURE}: the GPU memory this test may take, in GiB a GPU; "
    "`pytest --membudget` estimates it without a GPU and fails the test if it takes more."
)
