"""The pages: every link and anchor exists, and every shown example runs and gives the shown output."""

import re
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [*ROOT.glob("*.md"), *sorted(DOCS.glob("*.md")), ROOT / "benchmarks" / "README.md"]

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


def prose(page):
    """The page without blocks of code."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def links(page):
    """Relative links: path (empty for the page itself) and anchor (empty for none)."""
    found = re.findall(r"\]\(([^)\s]+)\)", prose(page))
    return [link.partition("#")[::2] for link in found if not re.match(r"[a-z]+:", link)]


def anchors(page):
    """The anchors of the headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def broken_links(page):
    for path, anchor in links(page):
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield f"{path}#{anchor}" if anchor else path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_and_its_anchor_exist(page):
    assert links(page) or page.name == "CHANGELOG.md"
    assert not list(broken_links(page))


@pytest.mark.parametrize(
    "link", ["gone.md", "page.md#gone", "#gone", "page.md#a-title", "page.md", "#a-title"]
)
def test_a_broken_link_is_found(tmp_path, link):
    page = tmp_path / "page.md"
    page.write_text(f"# A title!\n\n[text]({link}), [web](https://example.com/gone.md#gone)\n")

    assert list(broken_links(page)) == ([link] if "gone" in link else [])


@pytest.mark.parametrize("folder", ["src", "tests", "examples", "benchmarks"])
def test_every_page_that_a_source_names_exists(folder):
    files = [path for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".yaml", ".ini", ".md")]
    named = {
        name for path in files for name in re.findall(r"(?<![\w/])docs/([\w-]+\.md)", path.read_text("utf-8"))
    }

    assert named
    assert not [name for name in sorted(named) if not (DOCS / name).exists()]


# Examples


def blocks(page, language):
    text = (DOCS / page).read_text(encoding="utf-8")
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [block for name, block in found if name == language]


def examples(page):
    return blocks(page, "python")


@pytest.fixture
def lines_of(tmp_path, write_all, in_folder):
    """``lines_of(files, *args)``: the output of a session over ``files``, in a terminal of 80 columns."""

    def run(files, *args):
        write_all(tmp_path, files)
        return in_folder(tmp_path, "--membudget", *args, env={"COLUMNS": "80"}).lines

    return run


@pytest.fixture(scope="module")
def rows(session_of):
    """The rows of a session over the examples of all pages, by their pages."""
    tests = {
        f"{page}/test_{page.replace('-', '_')}_{number}.py": example
        for page in ("guide", "several-gpus", "porting")
        for number, example in enumerate(examples(f"{page}.md"))
    }
    run = session_of({"my_project.py": MY_PROJECT, **tests}, "--membudget", "-o", "pythonpath=.")
    assert run.status == 0, run.out
    return lambda page: [row for row in run.report["tests"] if row["file"].startswith(f"{page}/")]


@pytest.mark.parametrize(
    ("page", "count", "verdict"),
    [("guide", 4, "within"), ("several-gpus", 1, "within"), ("porting", 3, "unset")],
)
def test_every_example_of_a_page_passes(rows, page, count, verdict):
    assert len(examples(f"{page}.md")) == count
    assert [row["verdict"] for row in rows(page)] == [verdict] * count


@pytest.mark.skipif(
    not torch.__version__.startswith("2.13."), reason="the page shows the output with torch 2.13"
)
@pytest.mark.parametrize(("gib", "block"), [(3, 0), (2, 1)], ids=["within", "over"])
def test_getting_started_shows_the_real_output(lines_of, gib, block):
    [example] = examples("getting-started.md")

    lines = lines_of({"test_memory.py": example.replace("gib=3", f"gib={gib}")})

    outputs = [text for text in blocks("getting-started.md", "") if text.startswith(("=", "_"))]
    shown = outputs[block].splitlines()
    assert [line for line in shown if line not in lines] == []


@pytest.mark.skipif(
    not torch.__version__.startswith("2.13."), reason="the page shows the output with torch 2.13"
)
def test_getting_started_shows_the_real_output_of_the_lock_file(lines_of):
    [example] = examples("getting-started.md")
    bare = {"test_memory.py": example.replace("(gib=3)", "")}
    found = lines_of(bare)
    found += lines_of(bare, "--membudget-update")
    grown = {"test_memory.py": bare["test_memory.py"].replace("2048", "8192")}
    found += lines_of(grown)

    page = (DOCS / "getting-started.md").read_text(encoding="utf-8")
    shown = page.partition("## Record first")[2].partition("## A failure")[0]
    outputs = re.findall(r"^```\n(.*?)^```$", shown, re.MULTILINE | re.DOTALL)
    assert len(outputs) == 3
    assert [line for output in outputs for line in output.splitlines() if line not in found] == []
