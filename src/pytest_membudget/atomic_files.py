"""Writes files atomically: another process reads the earlier content or all of the new one."""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes the place of ``path`` when the block ends; if it raises, ``path`` stays as it was."""
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with unfinished.open("wb") as file:
            yield file
        unfinished.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        raise


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` to ``path`` as JSON."""
    with replacing(path) as file:
        file.write(json.dumps(value).encode())
