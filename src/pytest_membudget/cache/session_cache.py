"""The cache of estimates of one pytest session."""

from __future__ import annotations

import os
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any, Protocol

import pytest
from iniconfig import IniConfig

from ..budgets.settings import Settings
from ..names import REFRESH
from .estimates import EstimateCache
from .facts import session_facts
from .files import Files
from .reach import Names
from .store import Store, cache_folder, most_bytes

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - the same parser under its earlier name
    import tomli as tomllib

#: Settings that say what is done with an estimate, not what it is; of ``device``, what came of it counts.
_JUDGING = frozenset(
    {"measure", "max_disagreement", "max_growth", "timeout", "cache", "waivers", "processes", "device"}
)


class _Order(Protocol):
    """What a worker is started for."""

    @property
    def gpu(self) -> str: ...

    @property
    def device(self) -> str: ...

    @property
    def cards(self) -> int: ...

    @property
    def dir(self) -> str: ...

    @property
    def files(self) -> Any: ...


def _ini_of(path: Path | None) -> dict[str, Any]:
    """The settings of pytest in the file at ``path``; what the command line sets is an option."""
    if path is None:
        return {}
    if path.suffix == ".toml":
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        found = document.get("tool", {}).get("pytest", {}) if path.name == "pyproject.toml" else document
    else:
        sections = IniConfig(str(path)).sections
        found = {name: dict(sections[name]) for name in ("pytest", "tool:pytest") if name in sections}
    return {"file": str(path), "settings": found}


def _cards_of(order: _Order) -> dict[str, Any]:
    """What tests find while they are imported, and what it is made of, whoever has chosen it."""
    return {"import_gpu": order.gpu, "device": order.device, "cards": order.cards}


def cache_of(config: pytest.Config, settings: Settings, order: _Order) -> EstimateCache:
    """The cache for the estimates of a session whose workers are started for ``order``."""
    root = str(config.rootpath)

    def facts(names: Names, files: Files) -> dict[str, Any]:
        written = {field.name: getattr(settings, field.name) for field in fields(settings)}
        return session_facts(
            names,
            files,
            options=vars(config.option),
            settings={**_cards_of(order), **{k: v for k, v in written.items() if k not in _JUDGING}},
            ini=_ini_of(config.inipath),
            arguments=[os.path.normpath(str(arg).partition("::")[0]) for arg in config.args],
            folder=order.dir,
            root=root,
            test_files=order.files,
        )

    store = Store(cache_folder(os.environ), most_bytes(os.environ))
    return EstimateCache(store, root, facts, finds=settings.cache != REFRESH)
