"""Node ids, keys that are the same in every process of a session, and file names made of them."""

import hashlib
import os
import re

import pytest

#: Characters of a node id that a file's name keeps; file systems allow 255 bytes with the suffix.
_NAME_LENGTH = 100
#: Digits of the node id's hash: among a million tests, two have the same in 1 of 500 sessions.
_HASH_DIGITS = 12


def nodeid_of(item: pytest.Item) -> str:
    """The node id of ``item`` as pytest makes it, without the group that ``--dist loadgroup`` appends."""
    if not item.config.getoption("loadgroup", False):
        return item.nodeid
    marks = item.iter_markers("xdist_group")
    names = {str(mark.args[0] if mark.args else mark.kwargs.get("name", "default")) for mark in marks}
    return item.nodeid.removesuffix(f"@{'_'.join(sorted(names))}") if names else item.nodeid


def key_of(item: pytest.Item) -> str:
    """The file of ``item``, then its classes and its name, from the outside in.

    A node id does not identify it: for files outside the root folder it depends on the command line.
    """
    chain = item.listchain()
    files = [place for place, node in enumerate(chain) if isinstance(node, pytest.File)]
    names = [node.name for node in chain[files[-1] + 1 :]] if files else [item.nodeid]
    return "::".join([str(item.path), *names])


def name_of_rank(path: str, rank: int) -> str:
    """``path`` with the number of ``rank``, where each rank writes a file."""
    stem, suffix = os.path.splitext(path)
    return f"{stem}-rank{rank}{suffix}"


def file_name_of(nodeid: str) -> str:
    """A file name for the test ``nodeid``, without a suffix; unique, and valid on any file system.

    Characters other than letters, digits, ``_`` and ``-`` become ``-``; long ids are cut at their
    beginning, where the folders are; a hash makes the name unique.
    """
    readable = re.sub(r"[^A-Za-z0-9_-]+", "-", nodeid)[-_NAME_LENGTH:].strip("-")
    digest = hashlib.sha256(nodeid.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_DIGITS]
    return f"{readable}-{digest}"
