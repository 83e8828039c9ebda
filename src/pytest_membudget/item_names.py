"""What a test is called: for people, and the same in every process of a session."""

from __future__ import annotations

import pytest


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
