"""The cache of estimates of one pytest session."""

from __future__ import annotations

import os
from dataclasses import fields
from typing import Any, Protocol

import pytest

from ..config import REFRESH, Settings
from .estimates import EstimateCache
from .facts import session_facts
from .files import Files
from .reach import Names
from .store import Store, cache_folder, most_bytes

#: Settings that say what is done with an estimate, not what it is.
_JUDGING = frozenset({"measure", "max_disagreement", "max_growth", "timeout", "cache", "waivers"})


class _Order(Protocol):
    """What a worker is started for."""

    @property
    def gpu(self) -> str: ...

    @property
    def dir(self) -> str: ...

    @property
    def files(self) -> Any: ...


def cache_of(config: pytest.Config, settings: Settings, order: _Order) -> EstimateCache:
    """The cache for the estimates of a session whose workers are started for ``order``."""
    root = str(config.rootpath)

    def facts(names: Names, files: Files) -> dict[str, Any]:
        written = {field.name: getattr(settings, field.name) for field in fields(settings)}
        return session_facts(
            names,
            files,
            options=vars(config.option),
            settings={"import_gpu": order.gpu, **{k: v for k, v in written.items() if k not in _JUDGING}},
            ini={"file": str(config.inipath or ""), **dict(config.inicfg)},
            arguments=[os.path.normpath(str(arg).partition("::")[0]) for arg in config.args],
            folder=order.dir,
            root=root,
            test_files=order.files,
        )

    store = Store(cache_folder(os.environ), most_bytes(os.environ))
    return EstimateCache(store, root, facts, finds=settings.cache != REFRESH)
