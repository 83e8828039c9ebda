"""A base that is a commit: its files in a worktree, run by this session's interpreter."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from ..places import CheckoutPaths
from .foreign_imports import VARIABLE
from .git import add_worktree, remove_worktree, submodules_in
from .source import Head, Invocation, Start

_PLUGIN = "pytest_membudget.comparison.base.foreign_imports"


@dataclass(frozen=True, slots=True)
class CommitSource:
    """The files of a commit."""

    ref: str
    """The reference as the user wrote it."""
    top: Path
    """The folder of the head's checkout."""
    commit: str

    @property
    def shown(self) -> str:
        """For people."""
        return f"{self.ref} (merge base {self.commit[:10]})"

    def prepare(self, folder: Path, invocation: Invocation, head: Head) -> Start:
        """Add a worktree in ``folder``. Raises ``OSError`` with what is wrong."""
        worktree = self._worktree(folder)
        add_worktree(self.top, self.commit, worktree)
        missing = submodules_in(worktree)
        places = CheckoutPaths(str(self.top), str(worktree))
        start, rootdir = places.at_base(invocation.dir), places.at_base(invocation.rootdir)
        files = [places.at_base(file) for file in head.files] if head.files is not None else None
        return Start(
            args=["-p", _PLUGIN, f"--rootdir={rootdir}", *map(places.argument, invocation.args)],
            dir=start if os.path.isdir(start) else str(worktree),
            head=replace(head, files=files),
            import_path=places.import_path(sys.path, head.roots),
            environment=self._environment(places, folder),
            python=sys.executable,
            worktree=str(worktree),
            notes=[f"the base's submodules are not checked out: {', '.join(missing)}"] if missing else (),
        )

    def remove(self, folder: Path) -> None:
        """Remove the worktree, if there is one."""
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
