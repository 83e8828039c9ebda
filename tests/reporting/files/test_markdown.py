"""The report as GitHub's Markdown: what stands first, what is folded, what it is cut to and lets through."""

import re

import pytest

from pytest_membudget.reporting.files.markdown import markdown
from pytest_membudget.reporting.links import links_of
from tests.reporting.files.test_escaping import rendered

GIB = 2**30


def test_the_verdict_and_what_to_do_come_first(document, row, over):
    lines = markdown(document(row(), over())).splitlines()
    assert lines[0] == "### GPU memory: 1 over budget, of 2 tests"
    assert lines[2] == "**Over budget:** `tests/test_memory.py::test_over`  "
    assert lines[3] == "Takes 4.00 GiB, 1.00 GiB over its budget of 3.00 GiB.  "
    assert lines[5].startswith("**What to do:** Take 1.00 GiB off, first at `src/model.py:41`")


def test_what_is_over_besides_the_total_is_said_and_its_rows_come_first(document, row, figure):
    budget = {"components": {"activations": 0.5}}
    reason = "activations 0.50 GiB over their budget of 0.5 GiB"
    made = figure({"holders.1.location": "b.py:2"})
    over = row(verdict="over", reason=reason, limit_bytes=None, budget=budget, estimates=[made])
    text = markdown(document(over))

    assert "Most is held by: 1.00 GiB activations at `b.py:2` (`aten::mm`)" in text
    assert f"**over budget**: `{reason}` |" in text
    unknown = {**over, "budget": {"components": {"activations": 5}}}
    assert "What to do" not in markdown(document(unknown))


def test_changes_that_were_tried_are_listed_with_the_test(document, over, advice):
    text = markdown(document(over(advice=advice)))

    assert "What reduces it from 4.00 GiB (each change was run):" in text
    assert "- `AdamW(..., fused=True)`: 3.00 GiB (-1.00 GiB), within" in text


def test_only_changed_rows_are_in_sight(document, row, over):
    text = markdown(document(row("a::within"), over("a::over")))
    seen, _, folded = text.partition("<summary>1 within budget</summary>")
    assert (
        "| `a::over` | **over budget** | 4.00\u00a0GiB | 3.00\u00a0GiB | parameters\u00a03.00\u00a0GiB |"
        in seen
    )
    assert "a::within" not in seen
    assert "| `a::within` | within budget | 4.00\u00a0GiB | 5.00\u00a0GiB |" in folded


def test_growth_has_a_column_where_there_is_a_base(document, row, comparison):
    head = {"base": "origin/main", "commit": "a" * 40}
    text = markdown(document(row("a::b", comparison=comparison()), comparison=head))
    assert "Compared with `origin/main` at `aaaaaaaaa`.\n" in text
    assert "| 4.00\u00a0GiB | 5.00\u00a0GiB | +1.00\u00a0GiB\u00a0(+33.3%) |" in text
    assert "What grew most: +1.00 GiB activations of `layers.*.mlp` at `src/model.py:57`" in text


def test_what_the_run_does_otherwise_comes_before_the_lines_that_grew(document, row, comparison):
    checkpoints = {"kind": "recompute", "head": "50%", "base": "all", "details": ["blocks.*"]}
    text = markdown(document(row("a::b", comparison={**comparison(), "differences": [checkpoints]})))

    said = "Activation checkpointing of `blocks.*`: `50%` now, `all` at the base."
    assert f"**What differs:** {said}  \nWhat grew most: " in text
    assert f"- {said}\n- +1.00 GiB" in text


def test_lines_have_their_source_and_are_links_where_the_host_is_known(document, over, figure):
    git = {"commit": "a" * 40, "files": {"src/model.py": "pkg/src/model.py"}}
    held = figure({"holders.0.source": "x = a | b", "holders.0.largest_bytes": 3 * GIB // 2})
    read = document(over("a::b", estimates=[held]), git=git)
    links = links_of(read, {"GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "ada/project"})
    html = rendered(markdown(read, links=links))

    url = f"https://github.com/ada/project/blob/{'a' * 40}/pkg/src/model.py#L41"
    assert f'2 x 1.50 GiB = 3.00 GiB parameters of <code>layers.*.weight</code> at <a href="{url}"' in html
    assert "<code>x = a | b</code>" in html
    assert "<a href" not in rendered(markdown(read))


def test_a_line_of_the_base_is_no_link_to_the_head(document, row, comparison):
    git = {"commit": "a" * 40, "files": {"src/model.py": "src/model.py"}}
    gone = {"bytes": -GIB, "component": "activations", "base": "src/model.py:55"}
    found = [*comparison()["findings"], gone]
    read = document(row("a::b", comparison=comparison(findings=found)), git=git)
    links = links_of(read, {"CI_PROJECT_URL": "https://gitlab.com/ada/project"})
    text = markdown(read, links=links)

    assert "/-/blob/" + "a" * 40 + "/src/model.py#L57) (was `src/model.py:55`)" in text
    assert "no longer at `src/model.py:55`" in text
    assert "#L55" not in text


def test_what_is_installed_in_another_version_is_in_the_head(document, row, comparison):
    versions = {"transformers": {"base": "4.48.2", "head": "4.48.3"}}
    grown = comparison(distributions=versions)
    text = markdown(document(row("a::b", comparison=grown), comparison={"distributions": versions}))

    assert text.splitlines()[2] == "**Installed since:** `transformers 4.48.2 -> 4.48.3`."
    assert "than at the base (3.00 GiB), with `transformers 4.48.2 -> 4.48.3`." in text


def test_what_could_not_be_compared_says_why(document, row, comparison):
    other = comparison(None, status="not comparable", allowed=None, reason="another card", findings=[])
    text = markdown(document(row("a::b", comparison=other)))
    assert "| not comparable: `another card` |" in text


def test_what_is_gone_is_listed(document, row):
    beside = {"removed": [f"t::{n}" for n in range(12)]}
    text = markdown(document(row(), comparison=beside))
    assert "Removed since the base:\n\n- `t::0`" in text
    assert "- `t::9`\n- and 2 more" in text


def test_a_comment_is_found_again_by_its_first_line(document, row):
    assert markdown(document(row()), marker="gpu-1").startswith("<!-- membudget:gpu-1 -->\n\n### GPU memory")


def test_it_says_what_it_was_made_with(document, row):
    text = markdown(
        document(row(), distributions={"pytest-membudget": "0.1.0"}, git={"commit": "0" * 40, "dirty": True})
    )
    assert text.endswith(
        "<sub>pytest-membudget `0.1.0`, torch `2.13.0`, commit `000000000` with changes</sub>\n"
    )


@pytest.mark.parametrize("count", [3, 300, 3000])
@pytest.mark.parametrize("limit", [3000, 65_536])
def test_it_stays_below_the_limit_and_says_what_is_left_out(document, over, row, count, limit):
    rows = [over(f"tests/test_größe.py::test_{n}[{'x|y' * 20}]", details="d" * 9000) for n in range(count)]
    rows += [row(f"tests/test_fine.py::test_{n}") for n in range(count)]
    text = markdown(document(*rows), limit=limit)

    assert len(text.encode()) <= limit
    assert text.startswith(f"### GPU memory: {count} over budget, of {2 * count} tests")
    assert text.rstrip().endswith("</sub>")
    assert text.count("<details>") == text.count("</details>")
    if len(text.encode()) > limit - 5000 or count > 3:
        assert re.search(
            r"_Cut to the size limit: \d+ (parts|rows) left out; report.json has them all._", text
        )


def test_rows_that_are_left_out_are_counted(document, over):
    rows = [over(f"t::test_{n:04}") for n in range(2000)]
    text = markdown(document(*rows))
    shown = text.count("| **over budget** |")
    [left] = re.findall(r"(\d+) rows left out", text)
    assert shown + int(left) == 2000


def test_a_hostile_report_is_words_and_code(document, hostile_report):
    html = rendered(markdown(document(*hostile_report["tests"], **{
        key: hostile_report[key] for key in ("distributions", "torch", "git", "comparison")
    }), limit=10**6))  # fmt: skip
    outside = re.sub(r"<code\b.*?</code>", "", html, flags=re.DOTALL)

    assert set(re.findall(r"<([a-z0-9]+)", outside)) <= {
        "h3", "p", "strong", "br", "table", "thead", "tbody", "tr", "th", "td", "details", "summary", "ul",
        "li", "pre", "sub",
    }  # fmt: skip
    assert not re.search(r"<(a|img|script)\b", html)
    assert "@everyone" not in outside
    assert "evil" not in outside
    assert "::error" not in outside
    assert html.count("<table>") == html.count("</table>") == 1
    rows = re.findall(r"<tr>(.*?)</tr>", html, re.DOTALL)
    assert {row.count("<td") + row.count("<th") for row in rows} == {6}
