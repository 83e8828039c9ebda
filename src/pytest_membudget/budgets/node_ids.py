"""What a test is called: for people, and the same in every process of a session."""

from __future__ import annotations

import hashlib
import os
import re

import pytest

#: Characters of a node id that a file's name keeps; file systems allow 255 bytes with the suffix.
_NAME_LENGTH = 100
#: Digits of the node id's hash: that of two among a million tests are the same in 1 of 500 sessions.
_HASH_DIGITS = 12


def nodeid_of(item: pytest.Item) -> str:
    """The node id of ``item`` as pytest makes it: ``--dist loadgroup`` writes the group's name behind it."""
    if not item.config.getoption("loadgroup", False):
        return item.nodeid
    marks = item.iter_markers("xdist_group")
    names = {str(mark.args[0] if mark.args else mark.kwargs.get("name", "default")) for mark in marks}
    return item.nodeid.removesuffix(f"@{'_'.join(sorted(names))}") if names else item.nodeid


def key_of(item: pytest.Item) -> str:
    """The file of ``item`` and its names in it, from the outside in.

    A node id will not do: outside of the root folder it depends on the arguments of the session.
    """
    chain = item.listchain()
    files = [place for place, node in enumerate(chain) if isinstance(node, pytest.File)]
    names = [node.name for node in chain[files[-1] + 1 :]] if files else [item.nodeid]
    return "::".join([str(item.path), *names])


def name_of_rank(path: str, rank: int) -> str:
    """The file of ``rank`` where each of several ranks writes its own ``path``."""
    stem, suffix = os.path.splitext(path)
    return f"{stem}-rank{rank}{suffix}"


def file_name_of(nodeid: str) -> str:
    """A file's name for the test ``nodeid``, without a suffix: for any file system, no other test's.

    Its hash makes it so: what is not a letter, a digit, ``_`` or ``-`` becomes a ``-``, and long ids are
    cut at their beginning, where the folders are.
    """
    readable = re.sub(r"[^A-Za-z0-9_-]+", "-", nodeid)[-_NAME_LENGTH:].strip("-")
    digest = hashlib.sha256(nodeid.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_DIGITS]
    return f"{readable}-{digest}"
