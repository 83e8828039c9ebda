"""How much memory a card has that no mark names is varied: to an eighth, 9.9 GiB, and to four times it."""

import pytest

from tests.plugin.bodies import source
from tests.report_fixtures import caveat_texts

MIB = 2**20
HEAD = """\
import pytest
import torch
from torch.cuda import mem_get_info

budget = pytest.mark.mem_budget(gib=1)

def total():
    return torch.cuda.get_device_properties(0).total_memory

def take(mib):
    return torch.empty(mib * 2**20, dtype=torch.uint8, device="cuda")

def may_take(mib):
    try:
        return take(mib) is not None
    except torch.OutOfMemoryError:
        return False
"""
#: What is taken at the most, in MiB: an H100 has 79.2 GiB of 2**30 bytes in all, four times as much 316.7.
DEPENDING = {
    "on_the_total": (316, "take(total() // 2**30)"),
    "on_a_smaller_one": (256, "take(256 if total() < 12 * 2**30 else 1)"),
    "on_a_larger_one": (256, "take(256 if total() > 141 * 2**30 else 1)"),
    "on_what_is_free": (256, "take(256 if mem_get_info()[0] < 12 * 2**30 else 1)"),
    "on_what_the_runtime_says": (256, "take(256 if torch.cuda.cudart().cudaMemGetInfo(0)[1] > 2**38 else 1)"),
    "on_what_the_accelerator_says": (316, "take(torch.accelerator.get_memory_info()[1] // 2**32 * 4)"),
    # 0.002 of it are 162 MiB of an H100's
    "on_its_share": (256, "torch.cuda.set_per_process_memory_fraction(0.002)\nmay_take(256)\ntake(1)"),
    "on_what_compiled_code_asks": (
        256,
        "torch.compile(lambda x: x + (1 if total() < 2**38 else take(256)[0]), backend='eager')(take(1))",
    ),
}  # fmt: skip
AGREED = {
    "that_is_logged": "kept = take(8)\nprint(total(), mem_get_info(), torch.cuda.get_device_properties(0))",
    "that_has_to_do": "assert total() > 20 * 2**30, 'a larger card'\ntake(8)",
    "whose_share_is_enough": "torch.cuda.set_per_process_memory_fraction(0.001)\ntake(8)",
    "whose_part_is_free": "kept = take(8)\nfree, total = mem_get_info()\nassert 0 <= total - free < 2**30",
}
#: Half of 79.2 GiB is not enough for 50, also where a value that is read is another.
SHARE = "torch.cuda.set_per_process_memory_fraction(0.5)\nprint(take(8).sum().item())\nmay_take(50 * 2**10)"
NAMED = {"of_a_card_with_a_name": "take(8 if mem_get_info()[1] == total() else 16)"}


BODIES = {name: body for name, (_, body) in DEPENDING.items()} | AGREED | NAMED | {"its_share": SHARE}
MARKS = dict.fromkeys([*NAMED, "its_share"], "pytest.mark.mem_budget(gib=1, gpu='H100-80GB')")
FILES = {
    "test_budgets.py": source(BODIES, HEAD, MARKS),
    "pyproject.toml": "[tool.membudget]\nadvice = 'off'\n",
}
ARGS = ("--membudget", "--membudget-strict")


def estimate(run, name):
    return run.rows[f"test_{name}"]["estimates"][0]


@pytest.mark.parametrize("name", DEPENDING)
def test_what_depends_on_it_is_the_largest_and_unchecked(run, name):
    one = estimate(run, name)
    text = " ".join(caveat_texts(one))

    assert DEPENDING[name][0] * MIB <= one["peak"]["allocated"] < (DEPENDING[name][0] + 4) * MIB
    assert {caveat["cause"] for caveat in one["caveats"]} == {"free-memory"}
    assert "the memory of a card that its mark does not name: H100-80GB's; with other answers the" in text
    assert run.outcomes[f"test_{name}"] == "failed"
    assert "name the card in the mark: gpu='H100-80GB'" in run.text(f"test_{name}")


def test_its_line_is_named(run):
    line = (
        source({"on_the_total": DEPENDING["on_the_total"][1]}, HEAD).partition("    return")[0].count("\n")
        + 1
    )

    assert caveat_texts(estimate(run, "on_the_total"))[0].startswith(f"test_budgets.py:{line}: ")


@pytest.mark.parametrize("name", AGREED)
def test_what_does_not_is_no_caveat(run, name):
    one = estimate(run, name)

    assert (one["caveats"], run.outcomes[f"test_{name}"]) == ([], "passed"), run.text(f"test_{name}")
    assert one["peak"]["allocated"] == 8 * MIB
    assert len(one["variants"]) == 2


@pytest.mark.parametrize("name", NAMED)
def test_a_card_that_the_mark_names_has_its_own(run, name):
    one = estimate(run, name)

    assert (one["peak"]["allocated"], one["variants"]) == (8 * MIB, [])
    assert {caveat["cause"] for caveat in one["caveats"]} == {"method"}
    assert run.outcomes[f"test_{name}"] == "passed"


def test_so_has_its_share_in_all_runs(run):
    one = estimate(run, "its_share")

    assert one["peak"]["allocated"] < 73 * MIB  # 8 of bytes, and the same as whole numbers of 8 bytes
    assert len(one["variants"]) >= 2
    assert run.outcomes["test_its_share"] == "passed", run.text("test_its_share")
