"""Which files have values that nobody has computed: the stand-in's checkpoints, which mean nothing."""

import zipfile
from pathlib import Path
from typing import Final

from .safetensors_header import unknown_names

#: The record of a zip file that names those of unknown values.
UNKNOWN_RECORD: Final = ".pytest_membudget/unknown"


def has_unknown_values(path: Path) -> bool:
    """Whether ``path`` is a checkpoint with any. Raises ``OSError``; ``ValueError`` for a damaged one."""
    if path.suffix == ".safetensors":
        return bool(unknown_names(path))
    try:
        with zipfile.ZipFile(path) as archive:  # of a distributed checkpoint, the last of several in the file
            return any(name.endswith(UNKNOWN_RECORD) for name in archive.namelist())
    except zipfile.BadZipFile:
        return False
