"""The pages: every link and anchor exists, and every shown example runs and gives the shown output."""

import re
import shutil
from pathlib import Path

import pytest
import torch

from tests.repositories import git

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
FAILURES = DOCS / "failures.md"
PAGES = [*ROOT.glob("*.md"), *sorted(DOCS.glob("*.md")), ROOT / "benchmarks" / "README.md"]

#: The pages show the output with this release.
shown_with_213 = pytest.mark.skipif(
    not torch.__version__.startswith("2.13."), reason="the pages show the output with torch 2.13"
)

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


def test_readme_and_docs_stay_short():
    assert sum(len(page.read_text(encoding="utf-8")) for page in (README, *DOCS.glob("*.md"))) < 110_000


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
        found
        for path in files
        for found in re.findall(r"(?<![\w/])docs/([\w-]+\.md)(?:#([\w-]+))?", path.read_text("utf-8"))
    }

    assert named
    assert not [
        f"{name}#{anchor}"
        for name, anchor in sorted(named)
        if not (DOCS / name).exists() or (anchor and anchor not in anchors(DOCS / name))
    ]


# Examples

BLOCK = r"^```(\w*)\n(.*?)^```$"


def blocks(page, language):
    found = re.findall(BLOCK, page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [block for name, block in found if name == language]


def examples(page):
    return blocks(DOCS / page, "python")


#: How many examples a page has, and the verdict of each.
EXAMPLES = {"guide.md": (1, "within"), "several-gpus.md": (1, "within"), "porting.md": (1, "unset")}


def prefix(page):
    """The beginning of the names of the files with a page's examples."""
    return f"test_{page.removesuffix('.md').replace('-', '_')}_"


@pytest.fixture(scope="module")
def examples_run(session_of):
    files = {f"{prefix(page)}{n}.py": text for page in EXAMPLES for n, text in enumerate(examples(page))}
    run = session_of({"my_project.py": MY_PROJECT, **files}, "--membudget")
    assert run.status == 0, run.out
    return run


@pytest.mark.slow
@pytest.mark.parametrize("page", EXAMPLES)
def test_every_example_of_a_page_passes(examples_run, page):
    count, verdict = EXAMPLES[page]
    rows = [row for row in examples_run.report["tests"] if row["nodeid"].startswith(prefix(page))]

    assert len(examples(page)) == count
    assert [row["verdict"] for row in rows] == [verdict] * count


# Shown output

WIDTH = {"COLUMNS": "80"}


def shown(page):
    """The blocks of output: a line each, and "..." for lines that are left out."""
    return [block.splitlines() for block in blocks(page, "") if not block.startswith(("pip ", "python "))]


def first_missing(output, lines):
    """The first line of ``output`` that does not follow in ``lines`` on those before it; None if all do."""
    rest = iter(lines)
    return next((line for line in output if line != "..." and line not in rest), None)


def named_files(page):
    """The files of a page whose first line is a comment with their name."""
    code = [block for language in ("python", "yaml") for block in blocks(page, language)]
    named = [(re.match(r"# (\w+(?:\.\w+)+)\n", block), block) for block in code]
    return {name[1]: block for name, block in named if name}


@pytest.fixture(scope="module")
def script_lines(tmp_path_factory, write_all, in_folder):
    """The output of two sessions over the script of the README."""
    folder = tmp_path_factory.mktemp("readme")
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("*.yaml", "test_*"))
    write_all(folder, named_files(README))
    once = in_folder(folder, "--membudget", env=WIDTH)
    return once.lines + in_folder(folder, "--membudget", "--membudget-update", env=WIDTH).lines


@pytest.fixture(scope="module")
def failures(tmp_path_factory, write_all, in_folder):
    """The output of one session: the files of the page, and the marked test of the README."""
    folder = tmp_path_factory.mktemp("failures")
    files = named_files(FAILURES)
    growth = ".float()"
    base = {name: files[name].replace(growth, "") for name in ("model.py", "test_grown.py")}
    git(folder, "init", "-q")
    write_all(folder, base)
    assert in_folder(folder, "--membudget", "--membudget-update").status == 0
    git(folder, "add", *base, "holding.py", "pyproject.toml", "membudget.lock.yaml")
    git(folder, "commit", "-qm", "base")
    assert growth in files["model.py"]
    [files["test_memory.py"]] = blocks(README, "python")
    [files["test_first.py"]] = examples("getting-started.md")
    write_all(folder, files)
    asked = ("--membudget", "--membudget-strict", "--membudget-compare=HEAD")
    return in_folder(folder, *asked, env=WIDTH).lines


@shown_with_213
@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(shown(FAILURES))))
def test_the_failures_are_real(failures, number):
    assert first_missing(shown(FAILURES)[number], failures) is None


@shown_with_213
@pytest.mark.slow
def test_getting_started_names_the_real_figure(failures):
    assert "prints its peak: 2.59 GiB with torch 2.13, 86% of" in (DOCS / "getting-started.md").read_text(
        "utf-8"
    )
    assert [line for line in failures if re.search(r"_step_fits +3.00 GiB +2.59 GiB .* within", line)]


@shown_with_213
@pytest.mark.slow
def test_the_readme_shows_a_real_failure(failures):
    [output] = [block for block in shown(README) if block[0].startswith("___")]

    pytest.importorskip("transformers")
    assert first_missing(output, failures) is None


@shown_with_213
@pytest.mark.slow
def test_the_readme_shows_the_real_output_of_a_script(script_lines):
    [output] = [block for block in shown(README) if block[0].startswith("train.")]

    assert first_missing(output, script_lines) is None
    assert "membudget.lock.yaml: 1 written, 0 removed" in script_lines


def test_every_kind_of_failure_is_shown():
    titles = re.findall(r"^## (.+)$", prose(FAILURES), re.MULTILINE)

    assert len(shown(FAILURES)) > len(titles) > 8


def test_a_line_that_is_not_there_or_comes_earlier_is_found():
    assert first_missing(["a", "...", "c"], ["a", "b", "c"]) is None
    assert first_missing(["a", "d"], ["a", "b", "c"]) == "d"
    assert first_missing(["c", "a"], ["a", "b", "c"]) == "a"
