"""Commands whose answer depends on the checkout, or on the program alone; others are not followed."""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..git_command import LOCAL
from .audit import OF_MACHINE

#: Of git, those that read what ``States`` asks git for. Of these, what reads more.
_GIT: Final = (
    "branch", "config", "describe", "diff", "log", "remote", "rev-list", "rev-parse", "show", "status",
    "symbolic-ref", "tag",
)  # fmt: skip
_READS_MORE: Final = ("--ignored", "--no-index", "--output", "--ext-diff", "--textconv")
_VERSION: Final = (["--version"], ["-V"], ["-v"], ["version"])
#: What a shell only splits.
_PLAIN: Final = re.compile(r"[\w ./:,+@%=-]*")


def words_of(given: Any) -> list[str]:
    """The words of the command ``given`` to ``subprocess``; empty if a shell does more than split them."""
    words: list[str] = list(map(os.fsdecode, [given] if isinstance(given, (str, bytes)) else given))
    if len(words) == 3 and words[:2] == ["/bin/sh", "-c"]:
        return words[2].split() if _PLAIN.fullmatch(words[2]) else []
    return words


def asks_git(words: Sequence[str], environment: Mapping[Any, Any]) -> bool:
    """Whether it asks git for what it knows of the checkout that it runs in."""
    if os.path.basename(words[0]) != "git" or len(words) < 2 or words[1] not in _GIT:
        return False
    return not any(word.startswith(_READS_MORE) for word in words) and not set(LOCAL) & set(environment)


def asks_program(words: Sequence[str]) -> bool:
    """Whether its answer depends on the program and on the machine alone."""
    return os.path.basename(words[0]) in OF_MACHINE or list(words[1:]) in _VERSION
