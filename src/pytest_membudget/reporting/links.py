"""Links from lines of a report to where the repository's host shows them, at the report's commit."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote

from .document import Document

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Links:
    """The addresses of lines of the repository; none where the host is not known."""

    commit_url: str = ""
    """Of the files at the commit, with a slash at its end."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Paths in the repository, by the report's."""

    def url(self, location: str | None) -> str:
        """The address of ``location``; empty for a line that is in no file of the commit."""
        place = place_in(location)
        if place is None or not self.commit_url or place[0] not in self.files:
            return ""
        # the report may be anybody's: no path leads out of the commit
        full = place_in(f"{self.files[place[0]]}:{place[1]}")
        return f"{self.commit_url}{quote(full[0])}#L{full[1]}" if full is not None else ""


NO_LINKS: Final = Links()


def links_of(document: Document, environment: Mapping[str, str]) -> Links:
    """The links of ``document``: the host is that of the GitHub or GitLab job with this ``environment``.

    The commit is the report's: a job that comments on a pull request runs at another one.
    """
    commit = document.git.commit or ""
    if not _COMMIT.fullmatch(commit):
        return NO_LINKS
    server, repository = environment.get("GITHUB_SERVER_URL"), environment.get("GITHUB_REPOSITORY")
    if server and repository:
        return Links(f"{server}/{repository}/blob/{commit}/", document.git.files)
    project = environment.get("CI_PROJECT_URL")
    return Links(f"{project}/-/blob/{commit}/", document.git.files) if project else NO_LINKS


def place_in(location: str | None) -> tuple[str, int] | None:
    """File and line of ``src/model.py:41``; None for a text that is no relative path with a line."""
    file, _, line = (location or "").rpartition(":")
    if not file or not (line.isascii() and line.isdecimal()) or len(line) > 9:
        return None
    parts = file.split("/")
    if file.startswith("/") or "\\" in file or ".." in parts or ":" in parts[0]:
        return None
    return file, int(line)
