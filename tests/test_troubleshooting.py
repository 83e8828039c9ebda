"""docs/troubleshooting.md quotes messages that the source has, and tests that there are."""

import ast
import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
#: What stands for a part that differs from case to case.
ANY = "…"
#: The rows of the table at the end, by the test that shows them.
SHOWN_BY = yaml.safe_load((ROOT / "tests" / "what_happens_when.yaml").read_text(encoding="utf-8"))
MESSAGES = [
    text for text, whose in re.findall(r"^\*\*`(.+?)`\*\*(.*)$", PAGE, re.MULTILINE) if "pytest" not in whose
]
ROWS = re.findall(r"^\| (.+?) \| .+? \|$", PAGE.partition("| what | outcome |\n|---|---|\n")[2], re.MULTILINE)


def texts(path):
    """The texts in a module that are no docstrings; what is filled in later is ``ANY``."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else ANY for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in statements:
            yield node.value


@pytest.fixture(scope="module")
def said():
    """Every text in the source."""
    return [text for path in (ROOT / "src").rglob("*.py") for text in texts(path)]


def is_said(message, said):
    """Whether the parts of ``message`` stand in one text, in their order."""
    parts = [re.escape(part) for part in message.split(ANY) if part]
    found = re.compile(".*".join(parts), re.DOTALL)
    return any(found.search(text) for text in said)


def test_there_are_messages_and_rows():
    assert len(MESSAGES) > 15
    assert len(ROWS) > 10


@pytest.mark.parametrize("message", MESSAGES)
def test_every_message_is_in_the_source(said, message):
    assert is_said(message, said)


def test_a_message_of_nobody_is_not():
    assert not is_said("the worker was eaten by …", ["the worker was gone", "by …"])


@pytest.mark.parametrize("shown", SHOWN_BY)
def test_every_row_is_shown_by_a_test_that_there_is(shown):
    path, _, name = shown.partition("::")
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))

    assert any(isinstance(node, ast.FunctionDef) and node.name == name for node in tree.body)


def test_every_row_has_a_test():
    assert sorted(ROWS) == sorted(what for rows in SHOWN_BY.values() for what in rows)
