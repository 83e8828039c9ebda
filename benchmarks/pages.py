"""Generated pages: the long one goes to a build folder, its summary between two markers of a docs page."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]
#: Long pages: build artefacts, ignored by git.
REPORTS = ROOT / "build" / "reports"
#: The docs page that shows the summaries.
SUMMARIES = ROOT / "docs" / "accuracy.md"


def begin(name: str) -> str:
    """The marker above the summary ``name``."""
    return f"<!-- {name}: begin -->"


def end(name: str) -> str:
    """The marker below the summary ``name``."""
    return f"<!-- {name}: end -->"


def summary_in(page: str, name: str) -> str:
    """The text between the markers of ``name``. Raises ``ValueError`` unless each is there exactly once."""
    _, summary, _ = _cut(page, name)
    return summary


def with_summary(page: str, name: str, summary: str) -> str:
    """``page`` with ``summary`` between the markers of ``name``. Raises ``ValueError`` as ``summary_in``."""
    before, _, after = _cut(page, name)
    return f"{before}{_framed(summary)}{after}"


def write_pages(name: str, long_page: str, summary: str, path: Path | None, docs: Path = SUMMARIES) -> None:
    """Write ``long_page`` to ``path`` (default ``build/reports/<name>.md``) and ``summary`` into ``docs``."""
    path = path or REPORTS / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(long_page, encoding="utf-8")
    print(f"written: {path}")
    page = docs.read_text(encoding="utf-8")
    docs.write_text(with_summary(page, name, summary), encoding="utf-8")
    print(f"written: {docs}, summary {name!r}")


def _framed(summary: str) -> str:
    """A blank line above and below: Markdown ends an HTML comment's block at one."""
    return f"\n\n{summary.strip()}\n\n"


def _cut(page: str, name: str) -> tuple[str, str, str]:
    for marker in (begin(name), end(name)):
        if page.count(marker) != 1:
            raise ValueError(f"the page has {page.count(marker)} markers {marker}; write exactly one")
    before, marker, rest = page.partition(begin(name))
    summary, closing, after = rest.partition(end(name))
    if not closing:
        raise ValueError(f"{end(name)} is above {marker}; write it below")
    return before + marker, summary.strip(), closing + after
