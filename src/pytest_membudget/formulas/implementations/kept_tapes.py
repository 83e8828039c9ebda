"""Tapes that are written once for all who ask for the same: ranks of other stages, jobs of a grid."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import wraps
from typing import Concatenate, ParamSpec

from ..tape import Tape
from .setting import Setting

P = ParamSpec("P")

#: How many are kept of each kind, those that were asked for last.
_MOST = 256
_all: list[OrderedDict[Hashable, Tape]] = []


def kept(write: Callable[Concatenate[Setting, P], Tape]) -> Callable[Concatenate[Setting, P], Tape]:
    """``write``, a function of its arguments' values alone, with its last tapes kept.

    Passes over a tape are kept by the tape itself (``moments``), so they too are computed once.
    """
    tapes: OrderedDict[Hashable, Tape] = OrderedDict()
    _all.append(tapes)

    @wraps(write)
    def find(setting: Setting, /, *args: P.args, **kwargs: P.kwargs) -> Tape:
        key = (setting.key, args, tuple(kwargs.items()))
        tape = tapes.get(key)
        if tape is None:
            tape = tapes[key] = write(setting, *args, **kwargs)
            if len(tapes) > _MOST:
                tapes.popitem(last=False)
        else:
            tapes.move_to_end(key)
        return tape

    return find


def forget() -> None:
    """Keep none of those that were written."""
    for tapes in _all:
        tapes.clear()
