"""Bases: a commit, another environment, or a stored report; and how the first two are run.

In another environment this package is put on the import path, so that both sides are estimated by the same
code, and it need not be installed there; what it imports has to be.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from ...cache.states import digest
from ...cache.store import cache_folder
from ...errors import UsageMistake
from ...external_commands import run_command
from ...reporting.document import read_document
from ..places import CheckoutPaths, checkout_path
from .exchange import Base, Head, Order, base_of_document
from .foreign_imports import VARIABLE
from .git import OPTION, add_worktree, checkout_of, find_base, submodules_in, worktree_in
from .invocation import Invocation

_SUFFIX = ".json"
#: A plugin for the processes that run a commit.
_FOREIGN_IMPORTS = "pytest_membudget.comparison.base.foreign_imports"
PREFIX: Final = "python:"
#: What an estimate imports, and the one distribution with another name: those of pyproject.toml.
_NEEDED: Final = ("torch", "pytest", "pluggy", "filelock", "yaml")
_DISTRIBUTIONS: Final = {"yaml": "pyyaml"}
_OLDEST: Final = (3, 10)
#: Seconds for an interpreter to answer.
_TIMEOUT = 60.0
_PACKAGE: Final = Path(__file__).parents[2]
#: Under one name, whether or not it is installed there.
_PLUGIN: Final = ("-p", "no:membudget", "-p", f"{_PACKAGE.name}.plugin")
#: Any Python can run it; what is asked of a recent one is asked of no other.
_QUESTIONS: Final = """
import json, sys
sys.path[:] = [entry for entry in sys.path if entry]  # without the folder that it is run in
answers = {"version": list(sys.version_info[:3]), "prefix": sys.prefix, "path": sys.path}
if sys.version_info >= (3, 10):
    from importlib import util
    answers["missing"] = [name for name in sys.argv[1:] if util.find_spec(name) is None]
print(json.dumps(answers))
"""


@dataclass(frozen=True, slots=True)
class Start:
    """What the base's process is started with."""

    order: Order
    """With the base's paths."""
    import_path: Sequence[str]
    environment: Mapping[str, str]
    python: str
    notes: Sequence[str] = ()
    """For the session's summary."""


@dataclass(frozen=True, slots=True)
class StoredReport:
    """A base that is a report.json."""

    ref: str
    base: Base
    commit: None = None

    @property
    def shown(self) -> str:
        """For people."""
        return self.ref


@dataclass(frozen=True, slots=True)
class CommitSource:
    """The files of a commit."""

    ref: str
    top: Path
    """The folder of the head's checkout."""
    commit: str

    @property
    def shown(self) -> str:
        """For people."""
        return f"{self.ref} (merge base {self.commit[:10]})"

    def prepare(self, folder: Path, invocation: Invocation, head: Head) -> Start:
        """Add a worktree in ``folder``. Raises ``OSError`` with what is wrong."""
        worktree = worktree_in(folder, self.top)
        add_worktree(self.top, self.commit, worktree)
        missing = submodules_in(worktree)
        places = CheckoutPaths(str(self.top), str(worktree))
        start, rootdir = places.at_base(invocation.dir), places.at_base(invocation.rootdir)
        files = [places.at_base(file) for file in head.files] if head.files is not None else None
        args = ["-p", _FOREIGN_IMPORTS, f"--rootdir={rootdir}", *map(places.argument, invocation.args)]
        own_dir = start if os.path.isdir(start) else str(worktree)
        return Start(
            Order(args, own_dir, replace(head, files=files), str(folder), str(self.top)),
            import_path=places.import_path(sys.path, head.roots),
            environment=self._environment(places, folder),
            python=sys.executable,
            notes=[f"the base's submodules are not checked out: {', '.join(missing)}"] if missing else (),
        )

    def _environment(self, places: CheckoutPaths, folder: Path) -> dict[str, str]:
        environment = {**os.environ, VARIABLE: json.dumps({"head": str(self.top), "folder": str(folder)})}
        path = os.environ.get("PYTHONPATH")
        if path:
            entries = (places.at_base(os.path.abspath(entry)) for entry in path.split(os.pathsep) if entry)
            environment["PYTHONPATH"] = os.pathsep.join(entries)
        return environment


@dataclass(frozen=True, slots=True)
class EnvironmentSource:
    """The head's files in another environment."""

    ref: str
    python: str
    version: str
    import_path: tuple[str, ...]
    """``sys.path`` there."""
    top: Path
    """The folder of the head's checkout."""
    commit: None = None

    @property
    def shown(self) -> str:
        """For people."""
        return f"{self.ref} (Python {self.version})"

    def prepare(self, folder: Path, invocation: Invocation, head: Head) -> Start:
        """Link this package into a separate folder for the import path. Raises ``OSError``."""
        own = checkout_path(sys.path, head.roots, str(self.top))
        others = [entry for entry in self.import_path if entry not in own]
        args = [*_PLUGIN, f"--rootdir={invocation.rootdir}", *invocation.args]
        return Start(
            Order(args, invocation.dir, head, str(folder), str(self.top)),
            import_path=[str(_linked_package(folder)), *own, *others],
            environment=dict(os.environ),
            python=self.python,
        )


#: Bases that a process estimates.
BaseSource = CommitSource | EnvironmentSource
Source = BaseSource | StoredReport


def source_of(text: str | None, start: Path, root: Path) -> Source | None:
    """The base of ``--membudget-compare=text``; ``start``: the folder of the command line.

    Raises ``UsageMistake`` with what to do: no such report or reference, or none that can be used.
    """
    if text is None:
        return None
    if not text.strip():
        raise UsageMistake(
            f"{OPTION}=: write a git reference, as in {OPTION}=origin/main, a report.json, or "
            f"{PREFIX} and the interpreter of another environment"
        )
    if text.startswith(PREFIX):
        return find_environment(text, start, root)
    if not text.endswith(_SUFFIX):
        return CommitSource(text, *find_base(root, text))
    try:
        return StoredReport(text, base_of_document(read_document(start / text)))
    except UsageMistake as error:
        raise UsageMistake(f"{OPTION}: {error}") from None


def find_environment(text: str, start: Path, root: Path) -> EnvironmentSource:
    """The environment of ``python:PATH``, written in the folder ``start``; the session's root is ``root``.

    Raises ``UsageMistake`` with what to do: there is no such file, it is no Python, or tests cannot be
    estimated there.
    """
    place = f"{OPTION}={text}"
    # not resolved: the interpreter of a virtual environment is a link, and knows by its own path what it is
    python = os.path.abspath(start / Path(text.removeprefix(PREFIX)).expanduser())
    if not os.path.isfile(python):
        what = "is a folder" if os.path.isdir(python) else "does not exist"
        raise UsageMistake(
            f"{place}: {python} {what}; write the path of another environment's interpreter, as in "
            f"{OPTION}={PREFIX}.venv-new/bin/python"
        )
    answers = _asked(place, python)
    unusable = _unusable(python, answers)
    if unusable:
        raise UsageMistake(f"{place}: {unusable}")
    return EnvironmentSource(
        ref=text,
        python=python,
        version=_version_text(answers["version"]),
        import_path=tuple(os.path.abspath(entry) for entry in answers["path"]),
        top=checkout_of(root) or root,
    )


def _unusable(python: str, answers: Mapping[str, Any]) -> str:
    """Why tests cannot be estimated in the environment that gave ``answers``; empty if they can."""
    if tuple(answers["version"]) < _OLDEST:
        return f"is Python {_version_text(answers['version'])}; {_version_text(_OLDEST)} or later is needed"
    if answers["prefix"] == sys.prefix:
        return "is this session's own environment; name the interpreter of another one"
    missing = [_DISTRIBUTIONS.get(name, name) for name in answers["missing"]]
    if missing:
        return (
            f"that environment lacks {', '.join(missing)}; install what is missing: "
            f"{python} -m pip install {' '.join(missing)}"
        )
    return ""


def _version_text(version: Iterable[int]) -> str:
    return ".".join(map(str, version))


def _asked(place: str, python: str) -> dict[str, Any]:
    try:
        done = run_command([python, "-c", _QUESTIONS, *_NEEDED], _TIMEOUT)
        answers: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return {"missing": [], **answers, "version": list(answers["version"])}
    except (OSError, subprocess.SubprocessError) as error:
        raise UsageMistake(f"{place}: {python} cannot be run: {error}") from None
    except (ValueError, IndexError, KeyError, TypeError):
        output = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["it printed nothing"]
        raise UsageMistake(f"{place}: {python} is no Python interpreter that works: {output[0]}") from None


def _linked_package(folder: Path) -> Path:
    """A folder with nothing but a link to this package, which may lie among others.

    The same one in each session, for cached estimates depend on the import path; in ``folder`` where no
    estimates can be cached.
    """
    shared = cache_folder(os.environ) / "package" / digest(str(_PACKAGE).encode())
    for place in (shared, folder / "package"):
        link = place / _PACKAGE.name
        with suppress(OSError):
            place.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                link.symlink_to(_PACKAGE, target_is_directory=True)
            if link.resolve() == _PACKAGE.resolve():
                return place
    raise OSError(f"{folder} cannot have a link to {_PACKAGE}")
