"""The cache of estimates for one session: looked up before a worker runs a test, filled with its answer."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ..atomic_files import replacing
from ..results.answer import Answer, Request
from .paths import Names
from .states import CurrentStates, NotCacheable, States, dependencies_of, digest, first_change, json_text
from .store import Entry, Store


class EstimateCache:
    """Answers of workers, stored with what they depended on.

    Nothing here raises: a cache that cannot be read finds nothing, and one that cannot be written keeps
    nothing; ``trouble`` says why.
    """

    def __init__(
        self,
        store: Store,
        root: str,
        facts: Callable[[States], Mapping[str, Any]],
        variables: Callable[[Mapping[str, str]], Mapping[str, str]] = dict,
        *,
        finds: bool = True,
    ) -> None:
        """``facts``: what all estimates of the session depend on; called once. ``variables``: what counts.

        ``finds``: False for ``refresh``, which makes all estimates again and stores them.
        """
        self._store = store
        self._current = CurrentStates(Names(root), States(), head_of_base(os.environ))
        self._facts = facts
        self._variables = variables
        self._finds = finds
        self._has_kept = False
        #: why nothing can be stored, as text
        self.trouble = ""
        #: why single estimates cannot be cached, by node id
        self.not_cached: dict[str, str] = {}

    def find(self, request: Request) -> Answer | None:
        """The cached answer to ``request``; None if there is none that is still valid.

        Its snapshot is then at the path that the request names.
        """
        for entry in self._store.entries(self._key(request)) if self._finds else ():
            if first_change(entry.depends, self._current) is None:
                self._store.used(entry)
                return _answer(entry, request)
        return None

    def keep(self, request: Request, answer: Answer) -> None:
        """Store a worker's ``answer`` to ``request``, if it is a figure and its dependencies are known."""
        if answer.seen is None or not answer.has_figure or answer.snapshot_error or self.trouble:
            return
        try:
            key = self._key(request)
            if self._started_with != self._variables(os.environ):
                raise NotCacheable("the session has changed its environment variables")
            depends = dependencies_of(answer.seen, self._current)
            has_snapshot = answer.has_snapshot and request.snapshot is not None
            snapshot = Path(str(request.snapshot)).read_bytes() if has_snapshot else None
            self._store.keep(key, depends, replace(answer, seen=None).to_json(), snapshot)
            self._has_kept = True
        except NotCacheable as error:
            names = self._current.names
            self.not_cached[names.shown(request.key)] = names.shown(str(error))
        except OSError as error:
            self.trouble = f"{error.strerror or error}: {self._store.folder}"

    def close(self) -> None:
        """Remove old entries if the cache has grown, and is over its size."""
        if self._has_kept:
            self._store.trim()

    @cached_property
    def _started_with(self) -> Mapping[str, str]:
        return self._variables(os.environ)

    @cached_property
    def _session(self) -> str:
        return self._digest([self._started_with, self._facts(self._current.states)])

    def _key(self, request: Request) -> str:
        asked = replace(request, snapshot=None).to_json()
        return self._digest([self._session, asked, request.snapshot is not None])

    def _digest(self, value: object) -> str:
        """The same in each checkout; values of variables may be secrets, and only this digest is kept."""
        return digest(self._current.names.text(json_text(value)).encode("utf-8", "surrogateescape"))


def _answer(entry: Entry, request: Request) -> Answer:
    """The answer of ``entry``, with its snapshot at the path that ``request`` names."""
    answer = Answer.from_json(entry.answer)
    if request.snapshot is None:
        return answer
    path = Path(request.snapshot)
    try:
        if entry.snapshot is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as file:
                file.write(entry.snapshot)
        else:
            path.unlink(missing_ok=True)  # an earlier run's
    except OSError as error:
        why = f"{error.strerror or error}: {path.parent}"
        return replace(answer, has_snapshot=False, snapshot_error=why)
    return answer


def head_of_base(environment: Mapping[str, str]) -> str | None:
    """In a session that estimates a base: the head's checkout, which the base must not use."""
    watched = environment.get("MEMBUDGET_FOREIGN_IMPORTS")
    return str(json.loads(watched)["head"]) if watched else None
