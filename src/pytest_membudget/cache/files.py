"""What is in files: a digest of each, read once for as long as it stays the same."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable

#: What identifies a file's content without reading it: a write changes the last but one at least.
Signature = tuple[int, int, int, int]
ABSENT, FOLDER = "absent", "folder"
#: Larger files, as checkpoints are, are identified by size and times: reading them would cost what is saved.
MOST_READ_BYTES = 64 * 2**20
_DIGEST_BYTES = 20


def digest(data: bytes) -> str:
    """A digest of ``data``, as all here are."""
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()


def signature_of(found: os.stat_result) -> Signature:
    """Size, times of the last change of content and of anything, and number of a file."""
    return (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


def listing_digest(names: Iterable[str]) -> str:
    """A digest of the names in a folder; those of Python's own bytecode are none."""
    counted = sorted(name for name in names if name != "__pycache__" and not name.endswith(".pyc"))
    return digest("\0".join(counted).encode("utf-8", "surrogateescape"))


class Files:
    """States of paths, with a memory of the digests."""

    def __init__(self) -> None:
        self._digests: dict[tuple[str, Signature], str] = {}

    def state(self, path: str) -> str:
        """``absent``, ``folder``, or the digest of the content of the file at ``path``."""
        try:
            found = os.stat(path)
            if stat.S_ISDIR(found.st_mode):
                return FOLDER
            return self._content(path, found)
        except (FileNotFoundError, NotADirectoryError):
            return ABSENT
        except OSError as error:
            return f"unreadable: {error.errno}"

    def signature(self, path: str) -> Signature | None:
        """The signature of the file at ``path``, if there is one."""
        try:
            found = os.stat(path)
        except OSError:
            return None
        return signature_of(found) if stat.S_ISREG(found.st_mode) else None

    def listing(self, path: str) -> str:
        """The digest of the names in the folder ``path``."""
        try:
            return listing_digest(os.listdir(path))
        except OSError:
            return ABSENT

    def _content(self, path: str, found: os.stat_result) -> str:
        signature = signature_of(found)
        if not stat.S_ISREG(found.st_mode):
            return "special"
        if found.st_size > MOST_READ_BYTES:
            return digest(repr(signature).encode())
        known = self._digests.get((path, signature))
        if known is None:
            with open(path, "rb") as file:
                known = digest(file.read())
            self._digests[path, signature] = known
        return known
