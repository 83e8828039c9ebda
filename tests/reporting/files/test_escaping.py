"""Text from code in each format, held against what reads the format."""

import json
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pytest_membudget.json_object import visible
from pytest_membudget.reporting.files.escaping import (
    command_data,
    command_property,
    html_code,
    markdown_block,
    markdown_code,
    script_json,
)

RAW = st.text(st.sampled_from("ab1 |`\\<>&*_[]()!#@:,/.~-\r\n\"'$%{}=+日"), max_size=40)
TEXTS = RAW.map(visible)
#: A busy machine takes any time for one example.
no_deadline = settings(deadline=None)


def rendered(text):
    """HTML that GitHub's own parser makes of ``text``."""
    cmark = pytest.importorskip("cmarkgfm.cmark", reason="GitHub's parser of Markdown is not installed")
    # raw HTML stays, as on GitHub, which lets harmless elements through
    return cmark.github_flavored_markdown_to_html(text, options=cmark.Options.CMARK_OPT_UNSAFE)


def code_in(html):
    """The texts of code elements, and the HTML without them."""
    pattern = r"<code>(.*?)</code>"
    return [_unescaped(found) for found in re.findall(pattern, html, re.DOTALL)], re.sub(pattern, "", html)


def _unescaped(text):
    for entity, char in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&amp;", "&")):
        text = text.replace(entity, char)
    return text


def flat(text):
    return " ".join(text.split())


@no_deadline
@given(TEXTS)
def test_inline_code_is_the_text_and_nothing_else(text):
    shown = flat(text)
    html = rendered(f"before {markdown_code(text)} after")
    assert code_in(html) == ([shown] if shown else [], "<p>before  after</p>\n")


@no_deadline
@given(TEXTS, TEXTS)
def test_a_row_of_a_table_keeps_its_cells(first, second):
    table = f"| a | b |\n| :-- | :-- |\n| {markdown_code(first)} | {markdown_code(second)} |"
    html = rendered(table)
    found, rest = code_in(html)
    assert found == [shown for shown in (flat(first), flat(second)) if shown]
    assert rest.count("<td") == 2
    assert rest.count("<tr>") == 2


@no_deadline
@given(TEXTS)
def test_code_inside_html_is_the_text(text):
    html = rendered(f"<details><summary>x {html_code(text)}</summary>\n\ny\n\n</details>")
    inside = re.search(r"<code>(.*?)</code>", html, re.DOTALL)[1]
    assert re.sub(r"&#(\d+);", lambda found: chr(int(found[1])), inside) == flat(text)
    assert not set(inside) & set("<>`*_[]|@\\")


@example("a\n```\nb")
@example("`````\n~~~\n````")
@no_deadline
@given(st.text(st.sampled_from("a`~\n <>#"), max_size=60))
def test_nothing_ends_a_block_but_its_own_fence(text):
    html = rendered(f"{markdown_block(text)}\n\nafter")
    assert html.count("<pre") == 1
    assert html.endswith("</code></pre>\n<p>after</p>\n")


@example("a,b=c:d", "x\n::error::y")
@example("100%3A%2C", "100%25%0A%0D")
@no_deadline
@given(RAW, RAW)
def test_a_workflow_command_is_read_back_by_the_runners_rules(title, message):
    line = f"::error title={command_property(title)}::{command_data(message)}"
    assert len(line.splitlines()) == 1
    head, _, data = line.removeprefix("::").partition("::")
    # actions/runner, src/Runner.Common/ActionCommand.cs: properties end at commas, the value at "::"
    [(_, value)] = [part.split("=", 1) for part in head.removeprefix("error ").split(",")]
    undone = {"%3A": ":", "%2C": ",", "%0D": "\r", "%0A": "\n"}  # and %25 last
    for escape, char in undone.items():
        value = value.replace(escape, char)
    assert value.replace("%25", "%") == title
    assert data.replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%") == message


@no_deadline
@given(RAW)
def test_nothing_ends_a_script_element_but_its_end(text):
    written = script_json({"a</script><!--": text})
    assert not set(written) & set("<>&")
    assert json.loads(written) == {"a</script><!--": text}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("tests/test_a.py::test_b[größe-1]", "tests/test_a.py::test_b[größe-1]"),
        ("a\x00\x1b[31m\x7f", "a\\x00\\x1b[31m\\x7f"),
        ("a\nb\tc", "a\\nb\\tc"),
        ("\u202e\u2066\u200b\u2028\ufeff", "\\u202e\\u2066\\u200b\\u2028\\ufeff"),
        ("\ud800\ufffe\U000e0041", "\\ud800\\ufffe\\U000e0041"),
    ],
)
def test_hidden_characters_are_written_out(text, shown):
    assert visible(text) == shown


def test_lines_stay_where_they_may():
    assert visible("a\n\tb\r", lines=True) == "a\n\tb\\r"


def test_code_that_backticks_can_hold_stays_readable():
    assert markdown_code("tests/test_a.py::test_b[x]") == "`tests/test_a.py::test_b[x]`"
    assert markdown_code("a|b") == "<code>a&#124;b</code>"
