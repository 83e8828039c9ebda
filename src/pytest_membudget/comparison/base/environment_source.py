"""A base that is another environment: the head's own files, run by that environment's interpreter.

This package is put on its import path, so that both sides are estimated by the same code, and it need not
be installed there; what it imports has to be.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ...cache.states import digest
from ...cache.store import cache_folder
from ...errors import UsageMistake
from ..places import checkout_path
from .git import OPTION, checkout_of
from .source import Head, Invocation, Start

PREFIX: Final = "python:"
#: What an estimate imports, by the distributions that have it: those of pyproject.toml.
_NEEDED: Final = {
    "torch": "torch",
    "pytest": "pytest",
    "pluggy": "pluggy",
    "tabulate": "tabulate",
    "filelock": "filelock",
    "yaml": "pyyaml",
}
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
class EnvironmentSource:
    """The head's files in another environment."""

    ref: str
    """As it was asked for."""
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

    def remove(self, folder: Path) -> None:
        """Nothing is made that the run does not remove itself."""

    def prepare(self, folder: Path, invocation: Invocation, head: Head) -> Start:
        """Link this package into a separate folder for the import path. Raises ``OSError``."""
        own = checkout_path(sys.path, head.roots, str(self.top))
        others = [entry for entry in self.import_path if entry not in own]
        return Start(
            args=[*_PLUGIN, f"--rootdir={invocation.rootdir}", *invocation.args],
            dir=invocation.dir,
            head=head,
            import_path=[str(_linked_package(folder)), *own, *others],
            environment=dict(os.environ),
            python=self.python,
        )


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
    missing = [_NEEDED[name] for name in answers["missing"]]
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
        done = subprocess.run(
            [python, "-c", _QUESTIONS, *_NEEDED],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT,
            check=False,
        )
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
