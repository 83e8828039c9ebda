"""A worker that is asked for while the session collects, and imports the test files at the same time."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from .order import Order
from .template import Template
from .worker import Worker

#: An argument of the marker that names a card, or how many.
_CARDS: Final = re.compile(r"\bgpus?\s*=")
#: Their names fit into a pipe, which nobody reads yet.
_MOST_FILES: Final = 200


class EarlyWorker:
    """At most one; used if it is what would be started when the session has collected, else closed."""

    def __init__(self, order: Order, template: Template, *, is_needed: bool) -> None:
        """``order``: for the session's default card. ``is_needed``: whether no answer can be a cached one."""
        self._order = order
        self._template = template
        self._may_begin = is_needed
        self._worker: Worker | None = None

    def begin(self, files: Sequence[str]) -> None:
        """Ask the template, once, for a worker of ``files``, unless one of them names cards in its text."""
        if not self._may_begin or not self._template.address or len(files) > _MOST_FILES:
            return
        self._may_begin = False
        texts = (Path(file).read_text(encoding="utf-8", errors="replace") for file in files)
        if not any(map(_CARDS.search, texts)):
            self._worker = Worker(replace(self._order, files=list(files), template=self._template.address))

    def start(self, order: Order) -> Worker:
        """A worker for ``order``: the one that was asked for, or another."""
        worker, self._worker = self._worker, None
        if worker is not None and not worker.is_for(order):
            worker.close()
            worker = None
        return worker or Worker(order)

    def close(self) -> None:
        """End the worker, if nobody has used it."""
        if self._worker is not None:
            self._worker.close()
