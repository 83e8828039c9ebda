"""Texts in the columns of a terminal: names cut in the middle, code at its end, common prefixes."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

#: Fewer characters of a name say nothing.
LEAST = 12


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
