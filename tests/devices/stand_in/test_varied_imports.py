"""What nobody knows while files are imported is varied as in tests: their imports are run again."""

import json

import pytest

from tests.plugin.bodies import source
from tests.report_fixtures import caveat_texts

MIB = 2**20
HEAD = """\
import random

import numpy
import pytest
import torch

budget = pytest.mark.mem_budget(gib=1)
CARD = torch.cuda.is_available()  # not in the session's own process
MIB = 8

def take(mib):
    return torch.empty(mib * 2**20, dtype=torch.uint8, device="cuda")

"""
#: What is imported, what is taken in MiB, and where a caveat begins.
DEPENDING = {
    "a_cards_memory": (
        "MIB = 256 if CARD and torch.cuda.get_device_properties(0).total_memory < 2**34 else 1",
        256,
        "{place}: the memory of a card that its mark does not name",
    ),
    "a_truth": (
        "MIB = 256 if CARD and torch.randn(4, device='cuda').sum() > 9 else 1",
        256,
        "{place} reads a bool value (once)",
    ),
    "a_single_number": (
        "MIB = random.randint(1, 300)",
        300,
        "random numbers that the host draws (random), while files are imported",
    ),
    "a_row_of_numbers": (
        "MIB = 1 + int(numpy.random.rand(100).argmax())",
        1,
        "random numbers that the host draws (numpy), while files are imported",
    ),
}
AGREED = {
    "drawn_data": "DATA = torch.randn(4, 4), random.random()",
    "memory_that_is_logged": "print(CARD and torch.cuda.mem_get_info())",
    "a_file_that_skips_itself_on_smaller_cards": (
        "if CARD and torch.cuda.get_device_properties(0).total_memory < 2**34:\n"
        "    pytest.skip('a larger card', allow_module_level=True)"
    ),
}
#: Runs are the same where a file gives its generators seeds.
SEEDED = "random.seed(3)\nnumpy.random.seed(4)\ntorch.manual_seed(5)\nMIB = random.randint(8, 8)"
NAMED = "MIB = torch.cuda.mem_get_info()[1] // 2**33 if CARD else 1"


def text_of(imported, name="it", budget="budget"):
    return source({name: "take(MIB)"}, HEAD + imported + "\n\n", budget=budget)


@pytest.fixture(scope="module")
def run_of(session_of):
    def run(*texts, env=None):
        files = {f"test_{number}.py": text for number, text in enumerate(texts)}
        settings = {"pyproject.toml": "[tool.membudget]\nadvice = 'off'\n"}
        return session_of(files | settings, "--membudget", "--membudget-strict", env=env)

    return run


@pytest.fixture(scope="module")
def agreed(run_of):
    return run_of(*(text_of(imported, name=name) for name, imported in AGREED.items()))


def estimate(run, name="it"):
    return run.rows[f"test_{name}"]["estimates"][0]


@pytest.mark.parametrize("name", DEPENDING)
def test_what_depends_on_it_is_the_largest_and_unchecked(run_of, name):
    imported, most, begins = DEPENDING[name]
    run = run_of(text_of(imported))
    place = f"test_0.py:{HEAD.count(chr(10)) + 1}"

    assert most * MIB <= estimate(run)["peak"]["allocated"] <= 300 * MIB
    assert any(text.startswith(begins.format(place=place)) for text in caveat_texts(estimate(run)))
    assert run.outcomes["test_it"] == "failed"


@pytest.mark.parametrize("name", AGREED)
def test_what_does_not_is_no_caveat(agreed, name):
    one = estimate(agreed, name)

    assert (one["caveats"], agreed.outcomes[f"test_{name}"]) == ([], "passed"), agreed.text(f"test_{name}")
    assert one["peak"]["allocated"] == 8 * MIB
    assert one["variants"]


def test_a_file_that_gives_seeds_has_no_further_run(run_of):
    run = run_of(text_of(SEEDED))

    assert (estimate(run)["caveats"], estimate(run)["variants"]) == ([], [])
    assert estimate(run)["peak"]["allocated"] == 8 * MIB
    assert run.outcomes["test_it"] == "passed"


def test_what_a_library_draws_that_is_imported_is_no_question(session_of):
    """As rich does, of which plugins of pytest and Lightning make use."""
    files = {"site-packages/numbering.py": "import random\nFIRST = random.getrandbits(24)"}
    test = {"test_it.py": text_of("import numbering"), "pyproject.toml": "[tool.membudget]\nadvice = 'off'\n"}
    run = session_of(files | test, "--membudget", env={"PYTHONPATH": "site-packages"})

    assert estimate(run)["variants"] == []


def test_what_the_project_draws_is_one_where_it_is_installed_as_tox_does(write_all, in_folder, tmp_path):
    origin = json.dumps({"url": tmp_path.joinpath(".tox/own-0.1.tar.gz").as_uri(), "archive_info": {}})
    files = {
        "site-packages/own.py": f"import random\n{DEPENDING['a_single_number'][0]}",
        "site-packages/own-0.1.dist-info/direct_url.json": origin,
        "site-packages/own-0.1.dist-info/RECORD": "own.py,,\n",
        "test_it.py": text_of("from own import MIB"),
    }
    write_all(tmp_path, files)
    asked = ("--membudget", "--membudget-strict", "--membudget-report=membudget")
    run = in_folder(tmp_path, *asked, env={"PYTHONPATH": "site-packages"})

    assert estimate(run)["peak"]["allocated"] == 300 * MIB
    assert any(text.startswith(DEPENDING["a_single_number"][2]) for text in caveat_texts(estimate(run)))
    assert run.outcomes["test_it"] == "failed"


def test_a_card_that_the_mark_names_has_its_own(run_of):
    run = run_of(text_of(NAMED, budget="pytest.mark.mem_budget(gib=1, gpu='H100-80GB')"))

    assert estimate(run)["peak"]["allocated"] == 9 * MIB  # of 79.2 GiB
    assert estimate(run)["variants"] == []
    assert run.outcomes["test_it"] == "passed"


def test_the_cache_keeps_the_further_runs(run_of, again, cache_in, tmp_path):
    asked, env = ("--membudget", "--membudget-report=membudget"), cache_in(tmp_path)
    run = run_of(text_of(AGREED["drawn_data"]), env=env)

    assert again(run, *asked, env=env).rows["test_it"]["cached"]


RANKS = """\
import os

import pytest
import torch

{imported}

@pytest.mark.mem_budget(gib=1, gpus={gpus})
def test_it():
    torch.empty({mib} * 2**20, dtype=torch.uint8, device="cuda")
"""
#: What is imported, and taken in MiB on the rank that takes most.
PLACES = {
    "the_rank": ("RANK = int(os.environ.get('RANK', -1))", "(256 if RANK == 1 else 1)", 256),
    "how_many_there_are": ("WORLD = int(os.getenv('WORLD_SIZE', 1))", "64 * WORLD", 128),
    "whether_there_are_others": ("LAUNCHED = 'LOCAL_RANK' in os.environ", "(256 if LAUNCHED else 1)", 256),
}


@pytest.mark.parametrize("name", PLACES)
def test_each_rank_imports_files_with_the_variables_that_a_launcher_sets(run_of, name):
    imported, mib, most = PLACES[name]
    run = run_of(RANKS.format(imported=imported, mib=mib, gpus=2))

    assert max(one["peak"]["allocated"] for one in run.rows["test_it"]["estimates"]) == most * MIB
    assert run.outcomes["test_it"] == "passed", run.text("test_it")


def test_so_does_the_one_rank_of_a_test_that_says_so(run_of):
    imported, mib, most = PLACES["whether_there_are_others"]
    run = run_of(RANKS.format(imported=imported, mib=mib, gpus=1))

    assert estimate(run)["peak"]["allocated"] == most * MIB


RESUMING = """\
import os

import pytest
import torch

RANK = int(os.environ.get("RANK", 0))

@pytest.mark.mem_budget(gib=1, gpus=2)
def test_it():
    taken = 64 + 64 * RANK
    if os.path.exists("last.pt"):
        taken = torch.load("last.pt")["mib"]
    kept = torch.empty(taken * 2**20, dtype=torch.uint8, device="cuda")
    torch.save({"mib": 1, "model": kept[:1]}, "last.pt")
"""


def test_a_rank_that_imports_files_itself_does_not_find_what_another_has_saved(run_of):
    run = run_of(RESUMING)

    found = {one["rank"]: one["peak"]["allocated"] // MIB for one in run.rows["test_it"]["estimates"]}
    assert found == {0: 64, 1: 128}
    assert not (run.folder / "last.pt").exists()
