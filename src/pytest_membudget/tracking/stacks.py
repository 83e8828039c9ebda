"""The whole Python stack at an allocation, kept without its frames."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

#: The way of an operator from the user's call to the device, in torch: no part of it where kernels are real.
_MACHINERY = tuple(
    os.path.join("torch", *path)
    for path in (("_ops.py",), ("_subclasses", ""), ("utils", "_python_dispatch.py"), ("_library", ""))
)


class StackBook:
    """Stacks by number: the same stack has the same number, and is kept once.

    Kept are code objects and places in them, never frames: those would keep tensors alive.
    """

    def __init__(
        self, end: CodeType | None, is_hidden: Callable[[str], bool], is_users: Callable[[CodeType], bool]
    ) -> None:
        """``end``: whose callers need not be looked at; ``is_hidden``: files that no stack shows;

        ``is_users``: whether code is the user's or a library's of theirs; what called the outermost such
        code is left out.
        """
        self._end = end
        self._is_hidden = is_hidden
        self._is_users = is_users
        self._numbers: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
        self._stacks: list[list[tuple[CodeType, int]]] = []
        self._frames: dict[tuple[int, int], dict[str, Any]] = {}

    def capture(self) -> int:
        """The number of the stack that this is called on."""
        frame: FrameType | None = sys._getframe(1)
        end = self._end
        codes: list[CodeType] = []
        places: list[int] = []
        while frame is not None:
            code = frame.f_code
            if code is end:
                break
            codes.append(code)
            places.append(frame.f_lasti)
            frame = frame.f_back
        # by identity, for code hashes all its content; the ones in the book are alive, so no other has theirs
        key = (tuple(map(id, codes)), tuple(places))
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._stacks)
            self._stacks.append(list(zip(codes, places, strict=True)))
        return number

    def frames(self, number: int) -> list[dict[str, Any]]:
        """A stack as a snapshot has it: ``filename``, ``line`` and ``name``, the innermost first.

        Ours are left out, and what called the user's code: pytest. The rest of torch stays.
        """
        stack = [entry for entry in self._stacks[number] if not self._is_hidden(entry[0].co_filename)]
        users = [place for place, (code, _) in enumerate(stack) if self._is_users(code)]
        if users:
            del stack[users[-1] + 1 :]
        first = 0
        while first < len(stack) - 1 and _is_machinery(stack[first][0].co_filename):
            first += 1
        return [self._frame(code, place) for code, place in stack[first:]]

    def _frame(self, code: CodeType, place: int) -> dict[str, Any]:
        key = (id(code), place)
        frame = self._frames.get(key)
        if frame is None:
            frame = self._frames[key] = {
                "filename": code.co_filename,
                "line": line_at(code, place),
                "name": code.co_name,
            }
        return frame


def line_at(code: CodeType, place: int) -> int:
    """The line of the instruction at ``place`` (a frame's ``f_lasti``); the first one where it has none."""
    for start, end, line in code.co_lines():
        if start <= place < end and line is not None:
            return line
    return code.co_firstlineno


def _is_machinery(filename: str) -> bool:
    return any(part in filename for part in _MACHINERY)
