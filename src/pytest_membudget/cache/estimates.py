"""The cache of estimates for one session: looked up before a worker runs a test, filled with its answer."""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from ..results.answer import Answer, Request
from .states import NotCacheable, States, digest_of
from .store import Store

#: The variables that do not count: they name the terminal, the machine, the job of a CI, the process of
#: pytest, or the cache. Those that end in ``_`` are beginnings. docs/guide.md#cached-estimates lists them.
IGNORED = frozenset([
    "ACTIONS_", "BUILDKITE_", "CIRCLE_", "CI_COMMIT_", "CI_CONCURRENT_", "CI_JOB_", "CI_MERGE_REQUEST_",
    "CI_PIPELINE_", "CI_RUNNER_", "COLORTERM", "COLUMNS", "DBUS_SESSION_", "DISPLAY", "GITHUB_", "HOSTNAME",
    "INVOCATION_ID", "JOURNAL_STREAM", "LINES", "MEMBUDGET_CACHE_", "MEMBUDGET_FIGURES",
    "MEMBUDGET_FOREIGN_IMPORTS", "OLDPWD", "PWD", "PYTEST_CURRENT_TEST", "PYTEST_VERSION", "PYTEST_XDIST_",
    "RUNNER_", "SHLVL", "SSH_", "TERM", "TERM_", "TMUX", "TMUX_PANE", "VSCODE_", "WINDOWID", "XDG_SESSION_",
    "_",
])  # fmt: skip
_BEGINNINGS = tuple(name for name in IGNORED if name.endswith("_") and name != "_")


class EstimateCache:
    """Answers of workers, stored with what they depended on; without snapshots, which are made anew.

    Nothing here raises: a cache that cannot be read finds nothing, and one that cannot be written keeps
    nothing; ``trouble`` says why.
    """

    def __init__(
        self,
        store: Store,
        root: str,
        facts: Callable[[States], Mapping[str, Any]],
        *,
        finds: bool = True,
    ) -> None:
        """``facts``: what all estimates of the session depend on; called once.

        ``finds``: False for ``refresh``, which makes all estimates again and stores them.
        """
        self._store = store
        self._states = States(root, head_of_base(os.environ))
        self._facts = facts
        self._finds = finds
        self._has_kept = False
        #: why nothing can be stored, as text
        self.trouble = ""
        #: why single estimates cannot be cached, by node id
        self.not_cached: dict[str, str] = {}

    def find(self, request: Request) -> Answer | None:
        """The cached answer to ``request``; None if there is none that is still valid."""
        for entry in self._store.entries(self._key(request)) if self._finds and not request.snapshot else ():
            if self._states.first_change(entry.depends) is None:
                self._store.used(entry)
                return Answer.from_json(entry.answer)
        return None

    def keep(self, request: Request, answer: Answer) -> None:
        """Store a worker's ``answer`` to ``request``, if it is a figure and its dependencies are known."""
        if answer.seen is None or not answer.has_figure or self.trouble:
            return
        try:
            key = self._key(request)
            if self._started_with != counted_variables(os.environ):
                raise NotCacheable("the session has changed its environment variables")
            depends = self._states.dependencies_of(answer.seen)
            kept = replace(answer, seen=None, has_snapshot=False, snapshot_error="")
            self._store.keep(key, depends, kept.to_json())
            self._has_kept = True
        except NotCacheable as error:
            self.not_cached[request.key.replace(self._states.root + os.sep, "")] = str(error)
        except OSError as error:
            self.trouble = f"{error.strerror or error}: {self._store.folder}"

    def close(self) -> None:
        """Remove old entries if the cache has grown, and is over its size."""
        if self._has_kept:
            self._store.trim()

    @cached_property
    def _started_with(self) -> Mapping[str, str]:
        return counted_variables(os.environ)

    @cached_property
    def _session(self) -> str:
        return digest_of([self._started_with, self._facts(self._states)], self._states.root)

    def _key(self, request: Request) -> str:
        """Values of variables may be secrets, and only this digest is kept."""
        return digest_of([self._session, replace(request, snapshot=None).to_json()], self._states.root)


def counted_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """All of ``environment`` but what is documented not to count."""
    counted = (name for name in environment if name not in IGNORED and not name.startswith(_BEGINNINGS))
    return {name: environment[name] for name in counted}


def head_of_base(environment: Mapping[str, str]) -> str | None:
    """In a session that estimates a base: the head's checkout, which the base must not use."""
    watched = environment.get("MEMBUDGET_FOREIGN_IMPORTS")
    return str(json.loads(watched)["head"]) if watched else None
