"""The lines of *Taken for granted* and *Not modelled* for a terminal: one for all places of one text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

#: ``test_a.py:14``, the user's own line, with the library's line that it leads to where that is another.
_PLACED = re.compile(r"(?P<place>[^\s:]+:\d+(?: \([^\s:]+:\d+\))?):? (?P<what>.+)", re.DOTALL)
#: Texts that are listed; report.json has all.
_MOST = 8


def caveat_lines(texts: Iterable[str]) -> Iterator[str]:
    """A line for each of ``texts``; texts that differ in their places alone share one."""
    folded: dict[str, list[str]] = {}
    for text in texts:
        match = _PLACED.fullmatch(text)
        folded.setdefault(match["what"] if match is not None else text, []).append(text)
    for what, some in list(folded.items())[:_MOST]:
        match = _PLACED.fullmatch(some[0])
        rest = len(some) - 1
        places = f"{match['place']} and {rest} more line{'s' if rest > 1 else ''}: " if match and rest else ""
        yield f"  {places + what if places else some[0]}"
    if len(folded) > _MOST:
        yield f"  and {len(folded) - _MOST} more; report.json has all"
