"""Source, docs and examples are written in plain words, as PyTorch's and pytest's docs are."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: What to write in place of each.
AVOIDED = {
    r"t(old|ells?|elling)(?!\(\))": "report, pass, assume, distinguish",  # files have a method ``tell``
    r"stands?(?![-_]ins?)": "is, is listed, represents",  # a stand-in is a device's name
    r"beside": "next to, in addition to, besides",
    r"reckon\w*": "compute",
    r"alike": "identical, equal, the same",
    r"hears?|heard": "receive, get",
    r"bur(y|ied)|jail\w*|piles?": "release, child process, sum",
    r"of (its|their) own|of ours": "its, separate, our",
    r"without a word": "without a report",
}
FOLDERS = ("src", "docs", "examples")
SUFFIXES = {".py", ".md", ".yaml", ".toml", ".c", ".h", ".cpp"}


def files():
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    for folder in FOLDERS:
        found += [path for path in sorted((ROOT / folder).rglob("*")) if path.suffix in SUFFIXES]
    return found


def uses_of(pattern, text):
    """The lines of ``text`` with the word, by itself or as a part of a name in snake case."""
    word = re.compile(rf"(?<![a-zA-Z])(?:{pattern})(?![a-zA-Z])", re.IGNORECASE)
    return [number for number, line in enumerate(text.splitlines(), 1) if word.search(line)]


@pytest.mark.parametrize(("pattern", "instead"), AVOIDED.items())
def test_source_docs_and_examples_use_plain_words(pattern, instead):
    uses = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in files()
        for number in uses_of(pattern, path.read_text(encoding="utf-8"))
    ]

    assert not uses, f"write {instead}"


def test_a_word_is_found_in_prose_and_in_names_and_not_in_other_words():
    assert uses_of("pile", "a pile\ncompile\nbig_pile = 1\n") == [1, 3]
    assert uses_of("stands?(?![-_]ins?)", "the stand-in\nit stands here\nSTAND_IN = 1\n") == [2]
