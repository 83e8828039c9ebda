"""A report as GitHub's Markdown: for a job summary and for a comment on a pull request."""

import re
from collections.abc import Sequence

from ...errors import UsageMistake
from ...memory_report import MemoryReport
from ...results.comparison import NOT_COMPARABLE, ComparedSession, versions_text
from ...units import gib_text
from ..causes import Cause, cause_text, signed_growth, staying, title_of, trial_texts
from ..document import Document
from ..links import NO_LINKS, Links
from ..status import FAILURE, ReportedTest, counted, headline, legend, reported_tests
from .escaping import NO_BREAK, html_code, markdown_block, markdown_code

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
_HEADERS = ("test", "verdict", "takes", "budget", "change", "largest component")
_ALIGN = (":--", ":--", "--:", "--:", "--:", ":--")


def markdown(
    document: Document,
    *,
    limit: int = COMMENT_LIMIT,
    marker: str = "",
    links: Links = NO_LINKS,
    more: str = "",
) -> str:
    """The report in at most ``limit`` bytes of UTF-8, which are at least as many as its characters.

    The verdict and what to do come first; parts that do not fit are counted. ``marker``: a name in a hidden
    first line, by which a comment is found again. ``links``: addresses of lines. ``more``: a part to add.

    Raises ``UsageMistake`` for a limit that leaves no room.
    """
    found = reported_tests(document)
    compared = document.comparison or ComparedSession()
    hidden = f"<!-- membudget:{marker} -->" if marker else ""
    head = [text for text in (hidden, f"### GPU memory: {headline(found)}", _base_line(compared)) if text]
    foot = _foot(document)
    room = limit - _size([*head, foot]) - _size([_left_out("parts", 10**6)])
    if room < 0:
        raise UsageMistake(f"--limit={limit} has no room for the verdict: write {limit - room} or more")
    parts = _Parts(room)
    failing = [one for one in found if one.level == FAILURE]
    for one in failing[:_IN_FULL]:
        parts.add(_first_aid(one, links))
    _add_table(parts, [one for one in found if one.is_listed], links)
    parts.add(_list_of("Removed since the base", compared.removed))
    parts.add(_list_of("Skipped, and not at the base", compared.skipped))
    for one in found:
        if one.is_listed:
            parts.add(_why(one, links))
    parts.add(more)
    others = [one for one in found if not one.is_listed]
    _add_table(parts, others, links, counted(others))
    parts.add("".join(f"\\{line}" for line in legend(one.result for one in found)))
    note = [_left_out("parts", parts.left_out)] if parts.left_out else []
    return "\n\n".join([*head, *parts.kept, *note, foot]) + "\n"


class _Parts:
    """Collects the parts of a text that fit into ``room`` bytes, and counts those left out."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.kept: list[str] = []
        self.left_out = 0

    def add(self, text: str) -> None:
        """Keep ``text`` if there is room for it."""
        if text and _size([text]) > self.room:
            self.left_out += 1
        elif text:
            self.room -= _size([text])
            self.kept.append(text)


def _size(texts: Sequence[str]) -> int:
    return sum(len(text.encode()) + 2 for text in texts)


def _left_out(what: str, count: int) -> str:
    return f"_Cut to the size limit: {count} {what} left out; report.json has them all._"


def _base_line(compared: ComparedSession) -> str:
    named = [markdown_code(compared.base)] if compared.base else []
    named += [f"at {markdown_code(_short(compared.commit))}"] if compared.commit else []
    versions = versions_text(compared.distributions, markdown_code, _VERSIONS)
    installed = f"**Installed since:** {versions}." if versions else ""
    return " ".join(filter(None, [f"Compared with {' '.join(named)}." if named else "", installed]))


def _foot(document: Document) -> str:
    """The versions that the report was made with, cut to a fixed length."""
    own, torch = (document.distributions or {}).get("pytest-membudget"), document.torch
    parts = [f"pytest-membudget {markdown_code(own[:40])}"] if own else ["pytest-membudget"]
    parts += [f"torch {markdown_code(torch[:40])}"] if torch else []
    if document.git.commit:
        changed = " with changes" if document.git.dirty else ""
        parts.append(f"commit {markdown_code(_short(document.git.commit))}{changed}")
    return f"<sub>{', '.join(parts)}</sub>"


def _short(commit: str) -> str:
    return commit[:9] if re.fullmatch(r"[0-9a-f]{40,64}", commit) else commit[:100]


def _first_aid(one: ReportedTest, links: Links) -> str:
    lines = [
        f"**{one.word.capitalize()}:** {markdown_code(one.result.nodeid)}",
        one.explained(markdown_code),
        *(f"**What differs:** {text}" for text in one.differences(markdown_code)),
    ]
    found = one.causes(1)
    if found:
        title = "What grew most" if one.result.findings else "Most is held by"
        lines.append(f"{title}: {_cause(found[0], links)}")
    to_do = one.to_do(markdown_code)
    lines.append(f"**What to do:** {to_do}" if to_do else "")
    return "  \n".join(line for line in lines if line)


def _cause(cause: Cause, links: Links) -> str:
    """What explains a figure, with its line of code in a line below."""
    text = cause_text(cause, markdown_code, lambda location: _linked(location, links.url(location)))
    return f"{text}  \n  {markdown_code(cause.source)}" if cause.source else text


def _linked(text: str, url: str) -> str:
    return f"[{markdown_code(text)}]({url})" if url else markdown_code(text)


def _add_table(parts: _Parts, some: Sequence[ReportedTest], links: Links, title: str = "") -> None:
    """A table of ``some``: as many rows as fit, and how many are left out."""
    if not some:
        return
    rows = [_row(one, links) for one in some]
    has_base = any(one.result.since_base for one in some)
    table = [row if has_base else (*row[:4], *row[5:]) for row in (_HEADERS, _ALIGN, *rows)]
    written = [f"| {' | '.join(cells)} |" for cells in table]
    lines = written[:2]
    room = parts.room - _size([title, _left_out("rows", len(rows)), *lines])
    for line in written[2:]:
        room -= len(line.encode()) + 1
        if room < 0:
            break
        lines.append(line)
    left = len(rows) - (len(lines) - 2)
    text = "\n".join(lines) + (f"\n\n{_left_out('rows', left)}" if left else "")
    parts.add(f"<details><summary>{title}</summary>\n\n{text}\n\n</details>" if title else text)


def _row(one: ReportedTest, links: Links) -> tuple[str, ...]:
    result = one.result
    since = result.since_base
    figures = (
        _size_text(one.peak_bytes),
        _size_text(result.limit_bytes),
        signed_growth(since) if since else "-",
        _largest(result.figure),
    )
    whole = (figure.replace(" ", NO_BREAK) for figure in figures)
    return (_linked(result.nodeid, links.url(result.location)), _verdict(one), *whole)


def _size_text(size_bytes: int | None) -> str:
    return gib_text(size_bytes) if size_bytes is not None else "-"


def _verdict(one: ReportedTest) -> str:
    result, over, reason = one.result, one.result.over, ""
    word = f"**{one.word}**" if one.level == FAILURE else one.word
    word += f" \\{result.mark}" if result.mark else ""
    if result.excused_until is not None and result.lock is not None:
        reason = result.lock.reason
    elif over is not None and over.of and one.level == FAILURE:  # its budget has no column
        reason = result.reason
    elif result.comparison is not None and result.status == NOT_COMPARABLE:
        reason = result.comparison.reason
    return f"{word}: {markdown_code(reason[:_LONGEST_REASON])}" if reason else word


def _largest(figure: MemoryReport | None) -> str:
    if figure is None or not figure.components:
        return "-"
    name, size = figure.largest_component
    return f"{name} {gib_text(size)}"


def _why(one: ReportedTest, links: Links) -> str:
    """The folded section of one test: its changes or holders, and the text of an error."""
    listed = [f"- {text}" for text in one.differences(markdown_code)]
    listed += [f"- {_cause(cause, links)}" for cause in one.causes(_CAUSES)]
    body = ["\n".join(listed)] if listed else []
    for title_of_rows, rows, rest in staying(one.result.figure) if one.result.figure is not None else ():
        lines = [*(f"- {_cause(row, links)}" for row in rows), *([f"- {rest}"] if rest else [])]
        body.append("\n".join([f"{title_of_rows}:", "", *lines]))
    advice = one.result.advice
    if advice is not None and advice.tried:
        tried = [f"- {text}" for text in trial_texts(advice, markdown_code)]
        body.append("\n".join([f"{title_of(advice)}:", "", *tried]))
    if one.result.details:
        body.append(markdown_block(_cut(one.result.details)))
    if not body:
        return ""
    title = "What changed" if one.result.findings else "What holds it"
    summary = f"{title if listed else 'What happened'}: {html_code(one.result.nodeid)}"
    inside = "\n\n".join([one.explained(markdown_code), *body])
    return f"<details><summary>{summary}</summary>\n\n{inside}\n\n</details>"


def _cut(text: str) -> str:
    left = len(text) - _LONGEST_DETAILS
    return text if left <= 0 else f"{text[:_LONGEST_DETAILS]}\n… {left:,} more characters"


def _list_of(title: str, names: Sequence[str]) -> str:
    if not names:
        return ""
    shown = [f"- {markdown_code(name)}" for name in names[:10]]
    rest = [f"- and {len(names) - 10} more"] if len(names) > 10 else []
    return "\n".join([f"{title}:", "", *shown, *rest])
