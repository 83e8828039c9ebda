"""Which installed files are the project's own: tox, nox and ``pip install .`` copy it to site-packages."""

import csv
import glob
import json
import os
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from urllib.parse import unquote, urlsplit


@cache
def installed_own_files() -> frozenset[str]:
    """Those of this environment; no test has left the folder yet in which pytest was started."""
    return frozenset(own_files(sys.path, os.getcwd()))


def own_files(search: Iterable[str], root: str) -> Iterator[str]:
    """The files of distributions in ``search`` that were installed from what lies in or below ``root``.

    Installers write where that was to direct_url.json (PEP 610), and the files to RECORD.
    """
    root = os.path.join(os.path.realpath(root), "")
    for folder in search:
        for file in glob.glob(os.path.join(glob.escape(folder), "*.dist-info", "direct_url.json")):
            if os.path.join(_origin(file), "").startswith(root):
                yield from (os.path.join(folder, name) for name in _recorded(os.path.dirname(file)))


def _origin(file: str) -> str:
    """The path that a distribution was installed from; empty if it came from elsewhere."""
    try:
        with open(file, encoding="utf-8") as stream:
            url = urlsplit(json.load(stream)["url"])
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return ""
    return os.path.realpath(unquote(url.path)) if url.scheme == "file" else ""


def _recorded(metadata: str) -> list[str]:
    try:
        with open(os.path.join(metadata, "RECORD"), encoding="utf-8", newline="") as stream:
            return [row[0] for row in csv.reader(stream) if row]
    except (OSError, ValueError, csv.Error):
        return []
