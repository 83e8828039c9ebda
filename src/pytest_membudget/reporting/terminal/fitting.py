"""Texts in the width of a terminal: folded lines, names cut in the middle, code at its end, prefixes."""

import itertools
import re
import shutil
import textwrap
from collections.abc import Iterable, Iterator, Sequence

#: Fewer characters of a name say nothing.
LEAST = 12
#: A narrower terminal is taken for one of 80 columns, as pytest does.
_NARROWEST = 40


def terminal_width() -> int:
    """Columns of the terminal, or ``COLUMNS``; 80 without either."""
    columns = shutil.get_terminal_size().columns
    return columns if columns >= _NARROWEST else 80


def folded(texts: Iterable[str], width: int, column: int | None = None) -> Iterator[str]:
    """The lines of ``texts``; one longer than ``width`` continues at ``column``, or indented by two more.

    Words are never broken, for people copy them; what follows is indented less where that makes them fit.

    >>> list(folded(["  3.00 GiB  AdamW(..., fused=True), within"], 24, column=12))
    ['  3.00 GiB  AdamW(...,', '            fused=True),', '            within']
    """
    for line in itertools.chain.from_iterable(text.splitlines() or [""] for text in texts):
        if len(line) <= width:
            yield line
            continue
        start = line[: len(line) - len(line.lstrip())]
        indent = len(start) + 2 if column is None else column
        longest = max(map(len, line.split()), default=0)
        if longest <= width:
            indent = min(indent, width - longest)
        yield from textwrap.wrap(
            line.strip(), width, initial_indent=start, subsequent_indent=" " * indent,
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip


def cut_middle(name: str, width: int) -> str:
    """``name`` in at most ``width`` characters, 12 at least, more of them of its end: names differ there.

    >>> cut_middle("model.layers.*.self_attn.q_proj.weight", 24)
    'model.l…tn.q_proj.weight'
    >>> cut_middle("model.layers", 24)
    'model.layers'
    """
    width = max(width, LEAST)
    if len(name) <= width:
        return name
    head = (width - 1) // 3
    return f"{name[:head]}…{name[head + 1 - width :]}"


def cut_end(code: str, width: int) -> str:
    """The first ``width`` characters of ``code``, which is cut with ``…``."""
    width = max(width, LEAST)
    return code if len(code) <= width else f"{code[: width - 1]}…"


def common_prefix(nodeids: Sequence[str]) -> str:
    """The folder, or the file with ``::``, that all of ``nodeids`` begin with.

    >>> common_prefix(["tests/test_a.py::test_one", "tests/test_a.py::test_two"])
    'tests/test_a.py::'
    >>> common_prefix(["tests/test_a.py::test_one", "tests/test_b.py::test_one"])
    'tests/'
    """
    # parameters may have slashes and colons
    parts = [re.split("(?<=/)|(?<=::)", nodeid.partition("[")[0])[:-1] for nodeid in nodeids]
    shared = itertools.takewhile(lambda found: len(set(found)) == 1, zip(*parts, strict=False))
    return "".join(found[0] for found in shared)
