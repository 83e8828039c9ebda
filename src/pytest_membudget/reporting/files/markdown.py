"""A report as GitHub's Markdown: for a job summary and for a comment on a pull request."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from ...advice.trial import Advice
from ...errors import UsageMistake
from ...memory_report import MemoryReport
from ...results.comparison import versions_text
from ...units import gib_text
from ..advice import title_of, trial_text
from ..causes import Cause, cause_text, signed_growth
from ..document.document import Document
from ..links import NO_LINKS, Links
from ..marks import legend
from ..status import FAILURE, ReportedTest, causes, explained, headline, reported_tests, to_do
from .escaping import html_code, markdown_block, markdown_code

#: The longest body of a comment on GitHub, in characters. A job summary may have 1,024 KiB a step.
COMMENT_LIMIT = 65_536
#: Most holders or findings that the section of a test lists.
_CAUSES = 5
#: Most failures that are shown in full: the table should stay in sight.
_IN_FULL = 3
#: Distributions with other versions than at the base: most that are named.
_VERSIONS = 10
_LONGEST_DETAILS = 4000
_LONGEST_REASON = 200
_NO_BREAK = "\u00a0"
_HEADERS = ("test", "takes", "base", "change", "budget", "largest component", "verdict")
_ALIGN = (":--", "--:", "--:", "--:", "--:", ":--", ":--")


def markdown(
    document: Document, *, limit: int = COMMENT_LIMIT, marker: str = "", links: Links = NO_LINKS
) -> str:
    """The report in at most ``limit`` bytes of UTF-8, which are at least as many as its characters.

    The verdict and what to do come first; parts that do not fit are counted. ``marker``: a name in a hidden
    first line, by which a comment is found again. ``links``: addresses of lines.

    Raises ``UsageMistake`` for a limit that leaves no room.
    """
    found = reported_tests(document)
    base = _base_line(document)
    head = [f"<!-- membudget:{marker} -->"] if marker else []
    head += [f"### GPU memory: {headline(found)}", *([base] if base else [])]
    foot = _foot(document)
    room = limit - _size([*head, foot]) - _size([_left_out("parts", 10**6)])
    if room < 0:
        raise UsageMistake(f"--limit={limit} has no room for the verdict: write {limit - room} or more")
    parts = _Parts(room)
    failing = [one for one in found if one.level == FAILURE]
    for one in failing[:_IN_FULL]:
        parts.add(_first_aid(one, links))
    _add_table(parts, [one for one in found if one.is_listed], links)
    parts.add(_removed(document))
    parts.add(_skipped(document))
    parts.add(_unused(document))
    for one in found:
        if one.is_listed:
            parts.add(_why(one, links))
    _add_folded(parts, [one for one in found if not one.is_listed], links)
    parts.add("".join(f"\\{line}" for line in legend(one.result for one in found)))
    return "\n\n".join([*head, *parts.kept, *([parts.note] if parts.note else []), foot]) + "\n"


class _Parts:
    """Collects the parts of a text that fit into ``room`` bytes, and counts those left out."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.kept: list[str] = []
        self._left_out = 0

    def add(self, text: str) -> bool:
        """Keep ``text`` if there is room for it."""
        if not text:
            return True
        if _size([text]) > self.room:
            self._left_out += 1
            return False
        self.room -= _size([text])
        self.kept.append(text)
        return True

    @property
    def note(self) -> str:
        """The line on the parts that were left out; empty for none."""
        return _left_out("parts", self._left_out) if self._left_out else ""


def _size(texts: Sequence[str]) -> int:
    return sum(len(text.encode()) + 2 for text in texts)


def _left_out(what: str, count: int) -> str:
    return f"_Cut to the size limit: {count} {what} left out; report.json has them all._"


def _base_line(document: Document) -> str:
    compared = document.comparison
    if compared is None:
        return ""
    base = compared.base
    named = [markdown_code(base.ref)] if base.ref else []
    named += [f"at {markdown_code(_short(base.commit))}"] if base.commit else []
    versions = versions_text(compared.distributions, markdown_code, _VERSIONS)
    installed = f"**Installed since:** {versions}." if versions else ""
    return " ".join(filter(None, [f"Compared with {' '.join(named)}." if named else "", installed]))


def _foot(document: Document) -> str:
    """The versions that the report was made with, cut to a fixed length."""
    tool, torch = document.tool.version, document.torch.version
    parts = [f"pytest-membudget {markdown_code(tool[:40])}"] if tool else ["pytest-membudget"]
    parts += [f"torch {markdown_code(torch[:40])}"] if torch else []
    if document.git.head:
        changed = " with changes" if document.git.dirty else ""
        parts.append(f"commit {markdown_code(_short(document.git.head))}{changed}")
    return f"<sub>{', '.join(parts)}</sub>"


def _short(commit: str) -> str:
    return commit[:9] if re.fullmatch(r"[0-9a-f]{40,64}", commit) else commit[:100]


def _first_aid(one: ReportedTest, links: Links) -> str:
    lines = [
        f"**{one.word.capitalize()}:** {markdown_code(one.result.nodeid)}",
        explained(one, markdown_code),
    ]
    found = causes(one, 1)
    if found:
        title = "What grew most" if _is_change(one) else "Most is held by"
        lines.append(f"{title}: {_cause(found[0], links)}")
    lines.append(f"**What to do:** {to_do(one, markdown_code)}")
    return "  \n".join(line for line in lines if line)


def _cause(cause: Cause, links: Links) -> str:
    """What explains a figure, with its line of code in a line below."""
    text = cause_text(cause, markdown_code, lambda location: _linked(location, links))
    return f"{text}  \n  {markdown_code(cause.source)}" if cause.source else text


def _linked(location: str, links: Links) -> str:
    url = links.url(location)
    return f"[{markdown_code(location)}]({url})" if url else markdown_code(location)


def _is_change(one: ReportedTest) -> bool:
    return one.result.comparison is not None and bool(one.result.comparison.findings)


def _add_table(parts: _Parts, some: Sequence[ReportedTest], links: Links, title: str = "") -> None:
    """A table of ``some``: as many rows as fit, and how many are left out."""
    if not some:
        return
    rows = [_row(one, links) for one in some]
    columns = [
        number
        for number in range(len(_HEADERS))
        if number not in (2, 3) or any(row[number] != "-" for row in rows)
    ]
    lines = [_line(_HEADERS, columns), _line(_ALIGN, columns)]
    note = _left_out("rows", len(rows))
    room = parts.room - _size([title, note, *lines])
    for row in rows:
        line = _line(row, columns)
        room -= len(line.encode()) + 1
        if room < 0:
            break
        lines.append(line)
    left = len(rows) - (len(lines) - 2)
    table = "\n".join(lines) + (f"\n\n{_left_out('rows', left)}" if left else "")
    parts.add(f"<details><summary>{title}</summary>\n\n{table}\n\n</details>" if title else table)


def _line(cells: Sequence[str], columns: Iterable[int]) -> str:
    return f"| {' | '.join(cells[number] for number in columns)} |"


def _row(one: ReportedTest, links: Links) -> tuple[str, ...]:
    result = one.result
    limit, peak, comparison = result.limit_bytes, one.peak_bytes, result.comparison
    base = comparison.base_bytes if comparison is not None else None
    figures = (
        gib_text(peak) if peak is not None else "-",
        gib_text(base) if base is not None else "-",
        signed_growth(comparison) if comparison is not None and base is not None else "-",
        gib_text(limit) if limit is not None else "-",
        _largest(result.figure),
    )
    whole = (figure.replace(" ", _NO_BREAK) for figure in figures)
    name, url = markdown_code(result.nodeid), links.url(f"{result.file}:{result.line}")
    return (f"[{name}]({url})" if url else name, *whole, _verdict(one))


def _verdict(one: ReportedTest) -> str:
    word = f"**{one.word}**" if one.level == FAILURE else one.word
    word += f" \\{one.result.mark}" if one.result.mark else ""
    reason = one.result.comparison.reason if one.result.comparison is not None else ""
    shown = reason and one.status in ("not-comparable", "waived", "expired-waiver")
    return f"{word}: {markdown_code(reason[:_LONGEST_REASON])}" if shown else word


def _largest(figure: MemoryReport | None) -> str:
    if figure is None or not figure.components:
        return "-"
    name, size = max(figure.components.items(), key=lambda entry: entry[1])
    return f"{name} {gib_text(size)}"


def _why(one: ReportedTest, links: Links) -> str:
    """The folded section of one test: its changes or holders, and the text of an error."""
    found = causes(one, _CAUSES)
    listed = [f"- {_cause(cause, links)}" for cause in found]
    body = ["\n".join(listed)] if listed else []
    body += _advice(one.result.advice)
    if one.result.details:
        body.append(markdown_block(_cut(one.result.details)))
    if not body:
        return ""
    title = "What changed" if _is_change(one) else "What holds it"
    summary = f"{title if listed else 'What happened'}: {html_code(one.result.nodeid)}"
    inside = "\n\n".join([explained(one, markdown_code), *body])
    return f"<details><summary>{summary}</summary>\n\n{inside}\n\n</details>"


def _advice(advice: Advice | None) -> list[str]:
    """The changes that reduced memory, the largest saving first."""
    if advice is None or not advice.trials:
        return []
    lines = [f"- {trial_text(trial, advice, markdown_code)}" for trial in advice.trials]
    return ["\n".join([f"{title_of(advice)}:", "", *lines])]


def _cut(text: str) -> str:
    left = len(text) - _LONGEST_DETAILS
    return text if left <= 0 else f"{text[:_LONGEST_DETAILS]}\n… {left:,} more characters"


def _removed(document: Document) -> str:
    names = document.comparison.removed if document.comparison is not None else ()
    return _list_of("Removed since the base", names, markdown_code)


def _skipped(document: Document) -> str:
    names = document.comparison.skipped if document.comparison is not None else ()
    return _list_of("Skipped, and not at the base", names, markdown_code)


def _unused(document: Document) -> str:
    unused = document.comparison.unused_waivers if document.comparison is not None else ()
    names = [waiver.test for waiver in unused]
    return _list_of("Waivers that nothing needs: take them out of [tool.membudget]", names, markdown_code)


def _list_of(title: str, names: Sequence[str], code: Callable[[str], str]) -> str:
    if not names:
        return ""
    shown = [f"- {code(name)}" for name in names[:10]]
    rest = [f"- and {len(names) - 10} more"] if len(names) > 10 else []
    return "\n".join([f"{title}:", "", *shown, *rest])


def _add_folded(parts: _Parts, some: Sequence[ReportedTest], links: Links) -> None:
    words = dict.fromkeys(one.word for one in some)
    counted = ", ".join(f"{sum(one.word == word for one in some)} {word}" for word in words)
    _add_table(parts, some, links, counted)
