"""Runs git commands in a folder, whatever git or the user's shell has set in the environment."""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .external_commands import run_command

#: Variables that git sets for its hooks: with them it would use another repository, or index.
#: ``git rev-parse --local-env-vars``, git 2.39.
LOCAL: Final = (
    *("GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_CONFIG", "GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT"),
    *("GIT_OBJECT_DIRECTORY", "GIT_DIR", "GIT_WORK_TREE", "GIT_IMPLICIT_WORK_TREE", "GIT_GRAFT_FILE"),
    *("GIT_INDEX_FILE", "GIT_NO_REPLACE_OBJECTS", "GIT_REPLACE_REF_BASE", "GIT_PREFIX"),
    *("GIT_SHALLOW_FILE", "GIT_COMMON_DIR"),
)


@dataclass(frozen=True, slots=True)
class GitAnswer:
    """What a git command has written, and its exit status."""

    code: int
    """Not 0 if git could not be run, or ran out of time."""
    text: str
    error: str

    @property
    def first_error(self) -> str:
        """The first line of the error output, or the exit status."""
        lines = self.error.strip().splitlines()
        return lines[0] if lines else f"exit status {self.code}"


def run_git(folder: Path, *args: str, timeout: float = 60.0) -> GitAnswer:
    """Run ``git`` in ``folder`` for at most ``timeout`` seconds."""
    try:
        done = run_command(["git", "-C", str(folder), *args], timeout, _environment(os.environ))
    except (OSError, subprocess.SubprocessError) as error:
        return GitAnswer(1, "", str(error))
    return GitAnswer(done.returncode, done.stdout.strip(), done.stderr)


def _environment(environment: Mapping[str, str]) -> dict[str, str]:
    own = {name: value for name, value in environment.items() if name not in LOCAL}
    # git must not ask for a password, and its messages must not be translated
    return {**own, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
