"""A base that is a commit: its files in a worktree, run by this session's interpreter."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..places import CheckoutPaths
from .foreign_imports import VARIABLE
from .git import BaseCommit, add_worktree, remove_worktree, submodules_in
from .source import Invocation, Start

_PLUGIN = "pytest_membudget.comparison.base.foreign_imports"


@dataclass(frozen=True, slots=True)
class CommitSource:
    """The files of a commit."""

    base: BaseCommit

    @property
    def shown(self) -> str:
        """For people."""
        return self.base.shown

    @property
    def commit(self) -> str:
        """The commit whose files are estimated."""
        return self.base.commit

    @property
    def top(self) -> Path:
        """The folder of the head's checkout."""
        return self.base.top

    def prepare(self, folder: Path, invocation: Invocation, head: Mapping[str, Any]) -> Start:
        """Add the worktree."""
        worktree = self._worktree(folder)
        add_worktree(self.base, worktree)
        missing = submodules_in(worktree)
        places = CheckoutPaths(str(self.top), str(worktree))
        start, rootdir = places.at_base(invocation.dir), places.at_base(invocation.rootdir)
        arguments = [places.argument(argument) for argument in invocation.args]
        files = head["files"]
        return Start(
            args=["-p", _PLUGIN, f"--rootdir={rootdir}", *arguments],
            dir=start if os.path.isdir(start) else str(worktree),
            files=[places.at_base(file) for file in files] if files is not None else None,
            import_path=places.import_path(sys.path, head["roots"]),
            environment=self._environment(places, folder),
            python=sys.executable,
            worktree=worktree,
            notes=[f"the base's submodules are not checked out: {', '.join(missing)}"] if missing else (),
        )

    def remove(self, folder: Path) -> None:
        """Remove the worktree."""
        remove_worktree(self.top, self._worktree(folder))

    def _worktree(self, folder: Path) -> Path:
        # named as the checkout: tools use the folder's name
        return folder / "worktree" / self.top.name

    def _environment(self, places: CheckoutPaths, folder: Path) -> dict[str, str]:
        environment = {**os.environ, VARIABLE: json.dumps({"head": str(self.top), "folder": str(folder)})}
        path = os.environ.get("PYTHONPATH")
        if path:
            entries = (places.at_base(os.path.abspath(entry)) for entry in path.split(os.pathsep) if entry)
            environment["PYTHONPATH"] = os.pathsep.join(entries)
        return environment
