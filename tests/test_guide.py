"""The guide's examples are run as they stand, in one session, beside a small ``my_project``."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
GUIDE = (DOCS / "guide.md").read_text(encoding="utf-8")

MY_PROJECT = """
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(1000, 64)
        self.head = torch.nn.Linear(64, 1000)

    def forward(self, tokens):
        logits = self.head(self.embedding(tokens))
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())


def build_model():
    return Model()


def random_batch():
    return torch.randint(0, 1000, (2, 128), device="cuda")


def train():
    model = build_model().cuda()
    model(random_batch()).backward()
"""


def examples():
    return re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)


def test_every_example_of_the_guide_is_within_its_budget(pytester):
    pytester.makepyfile(my_project=MY_PROJECT)
    for number, example in enumerate(examples()):
        pytester.makepyfile(**{f"test_example_{number}": example})

    result = pytester.runpytest_subprocess("--membudget", "-p", "no:cacheprovider")

    assert len(examples()) >= 4
    result.assert_outcomes(passed=len(examples()))
    result.stdout.fnmatch_lines([f"{len(examples())} estimated ({len(examples())} within, 0 over)*"])


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(((?!https?:)[^)#]+)", page.read_text(encoding="utf-8"))

    missing = [link for link in links if not (page.parent / link).exists()]

    assert not missing
