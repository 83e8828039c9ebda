"""A report as a JUnit file: a test case for each budget, its figures as properties."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree

from ...results.test_result import TestResult
from ..causes import cause_text, change_lines
from ..document import Document
from ..status import FAILURE, ReportedTest, reported_tests

#: The prefix of all names of properties; tests record properties of the same files.
PREFIX = "membudget."
#: Verdicts of tests that have neither passed nor failed.
_SKIPPED = ("skipped", "undecided", "unset")
#: Most holders or findings that the text of a failure lists.
_CAUSES = 10


def junit(document: Document) -> str:
    """One suite in the order of the report; a case fails where the report says that its test does."""
    found = {id(one.result): one for one in reported_tests(document)}
    ordered = [found[id(result)] for result in document.tests]
    suite = ElementTree.Element(
        "testsuite",
        name="membudget",
        tests=str(len(ordered)),
        failures=str(sum(one.level == FAILURE for one in ordered)),
        errors="0",
        skipped=str(sum(one.result.verdict in _SKIPPED for one in ordered)),
    )
    for one in ordered:
        _add_case(suite, one)
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root, " ")
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _add_case(suite: ElementTree.Element, one: ReportedTest) -> None:
    result = one.result
    path, _, name = result.nodeid.partition("::")
    group, _, last = name.rpartition("::") if "[" not in name else ("", "", name)
    classname = ".".join([path.removesuffix(".py").replace("/", "."), *(group.split("::") if group else [])])
    attributes = {"classname": classname, "name": last or path, "file": result.file, "line": str(result.line)}
    case = ElementTree.SubElement(suite, "testcase", attributes)
    properties = ElementTree.SubElement(case, "properties")
    for key, value in _properties(one):
        ElementTree.SubElement(properties, "property", name=key, value=str(value))
    text = one.explained()
    if one.level == FAILURE:
        failure = ElementTree.SubElement(case, "failure", message=text, type=one.word)
        causes = (f"  {cause_text(cause, str)}" for cause in one.causes(_CAUSES))
        failure.text = "\n".join(filter(None, (text, one.to_do(), *causes, result.details)))
    elif result.verdict in _SKIPPED:
        ElementTree.SubElement(case, "skipped", message=result.reason)
    elif result.comparison is not None and result.findings:
        ElementTree.SubElement(case, "system-out").text = "\n".join([text, *change_lines(result.comparison)])


def _properties(one: ReportedTest) -> Iterator[tuple[str, int | str]]:
    yield f"{PREFIX}verdict", one.result.verdict
    if one.result.status is not None:
        yield f"{PREFIX}status", one.result.status
        yield f"{PREFIX}growth_bytes", one.result.growth_bytes
    yield from figures(one.result)


def figures(result: TestResult) -> Iterator[tuple[str, int | str]]:
    """The budget, and peaks and components of the rank that takes most; in bytes, except the metric."""
    if result.limit_bytes is not None:
        yield f"{PREFIX}budget_bytes", result.limit_bytes
    for word, figure in (("estimated", result.worst_estimate), ("measured", result.worst_measurement)):
        if figure is None or not figure.peak_bytes:
            continue
        yield f"{PREFIX}{word}_metric", figure.metric
        yield f"{PREFIX}{word}_bytes", figure.peak_bytes
        for name, size in figure.components.items():
            if size:
                yield f"{PREFIX}{word}_{name}_bytes", size
