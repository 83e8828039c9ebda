"""Which sessions needed no worker: the next one like them starts none early.

An empty file for each, in the folder of kept estimates. Right or wrong, it changes no figure and no verdict.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

import pytest

from ..budgets.settings import OFF, REFRESH, Settings
from .files import digest
from .store import cache_folder

_FOLDER = "idle"
#: How many are kept, those that were written last.
_MOST = 500


def was_idle(settings: Settings, config: pytest.Config) -> bool:
    """Whether the last session like this one needed no worker; False where that is not known."""
    if settings.cache in (OFF, REFRESH):
        return False
    with contextlib.suppress(OSError):
        return _file_of(config).exists()
    return False


def remember_idle(settings: Settings, config: pytest.Config, *, is_idle: bool) -> None:
    """Tell the next session like this one; where nothing can be written it will not know."""
    if settings.cache == OFF:
        return
    file = _file_of(config)
    with contextlib.suppress(OSError):
        if is_idle:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
            _trim(file.parent)
        else:
            file.unlink(missing_ok=True)


def _trim(folder: Path) -> None:
    files = sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime)
    for file in files[:-_MOST]:
        file.unlink(missing_ok=True)


def _file_of(config: pytest.Config) -> Path:
    asked = [str(config.rootpath), str(config.invocation_params.dir), *map(str, config.args)]
    name = digest(json.dumps(asked).encode("utf-8", "surrogatepass"))
    return cache_folder(os.environ) / _FOLDER / name
