"""Summaries of generated pages are written between two markers; the docs show those of the kept results."""

import pytest

from benchmarks import pages, speed
from benchmarks.accuracy_page import accuracy_summary
from benchmarks.kept_accuracy import read_kept
from benchmarks.published_figures import read_published

PAGE = "# Title\n\n<!-- a: begin -->\n\nold\n\n<!-- a: end -->\n\nText.\n"


def test_a_summary_replaces_the_one_between_its_markers():
    page = pages.with_summary(PAGE, "a", "| new |\n")

    assert page == "# Title\n\n<!-- a: begin -->\n\n| new |\n\n<!-- a: end -->\n\nText.\n"
    assert pages.summary_in(page, "a") == "| new |"


def test_other_summaries_are_left_as_they_are():
    both = PAGE + PAGE.replace(" a:", " b:")

    page = pages.with_summary(both, "b", "new")

    assert pages.summary_in(page, "a") == "old"
    assert pages.summary_in(page, "b") == "new"


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ("", "has 0 markers <!-- a: begin -->; write exactly one"),
        ("<!-- a: begin -->", "has 0 markers <!-- a: end -->; write exactly one"),
        (PAGE + PAGE, "has 2 markers <!-- a: begin -->; write exactly one"),
        ("<!-- a: end -->\n<!-- a: begin -->", "<!-- a: end --> is above <!-- a: begin -->; write it below"),
    ],
)
def test_a_page_without_one_pair_of_markers_is_refused(page, message):
    with pytest.raises(ValueError, match=message):
        pages.with_summary(page, "a", "new")


def test_the_long_page_is_written_where_it_is_asked_for_and_the_summary_into_the_docs(tmp_path):
    docs = tmp_path / "docs.md"
    docs.write_text(PAGE)

    pages.write_pages("a", "long\n", "short", tmp_path / "made" / "long.md", docs)

    assert (tmp_path / "made" / "long.md").read_text() == "long\n"
    assert pages.summary_in(docs.read_text(), "a") == "short"


# The docs show the kept results


def accuracy():
    published = read_published(sorted((pages.ROOT / "benchmarks" / "published").glob("*.yaml")))
    kept = read_kept()
    return accuracy_summary(kept.comparisons(published), kept.run())


def speeds():
    return speed.summary_of(*speed.read_kept())


@pytest.mark.parametrize(("name", "summary"), [("accuracy", accuracy), ("speed", speeds)])
def test_the_docs_show_the_summary_of_the_kept_results(name, summary):
    shown = pages.summary_in(pages.SUMMARIES.read_text(encoding="utf-8"), name)

    assert shown == summary().strip(), f"run python -m benchmarks.{name} --only-kept"
