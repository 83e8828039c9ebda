"""``--membudget-compare``: a repository's base beside its head, and what becomes of each test."""

import copy
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.comparison import story
from tests.plugin.bodies import source
from tests.repositories import git

MIB = 2**20
LOCK = """
    version: 1
    tests:
      test_states.py::test_excused: {bytes: 536870912, reason: a fix, until: 2999-12-31}
      test_states.py::test_expired: {bytes: 536870912, reason: a week, until: 2020-01-01}
      test_states.py::test_same: {bytes: 536870912, reason: no more, until: 2999-12-31}
    """
HEAD_OF_STATES = """\
import pytest
from holding import hold
from sizes import SIZES

def budget(gib=0.1, **more):
    return pytest.mark.mem_budget(gib=gib, **more)

"""
BODIES = {
    "still_over": "hold(0.2)",
    "allowed": "hold(SIZES['allowed'])",
    "less": "hold(SIZES['less'])",
    "growth_alone": "import inner  # where the test runs\nhold(inner.SIZE)",
    "rank_1_grows_above_rank_0": (
        "import torch.distributed as dist  # the process group is there before the body\n"
        "hold(SIZES['rank 1'] if dist.get_rank() else 0.0625)"
    ),
    **dict.fromkeys(["same", "steady", "same_alone"], "hold(0.05)"),
    **dict.fromkeys(["new_over", "excused", "expired", "expected"], "hold(SIZES['over'])"),
}
MARKS = {
    "same": "budget(max_growth='1%')",
    "steady": "budget(max_growth='1%')",
    "allowed": "budget(max_growth='70%')",
    "less": "budget(gib=1)",
    "growth_alone": "pytest.mark.mem_budget(max_growth='1%')",
    "same_alone": "pytest.mark.mem_budget(max_growth='1%')",
    "rank_1_grows_above_rank_0": "budget(gib=1, max_growth='1%', gpus=2)",
    "expected": "pytest.mark.xfail(strict=True)\n@budget(gib=1, max_growth='1%')",
}


def states(name):
    """Those of both sides, and ``name``."""
    return source({**BODIES, name: "hold(0.05)"}, HEAD_OF_STATES, MARKS, budget="budget()")


MENDED = """
    import pytest
    from holding import hold
    {line}

    @pytest.mark.mem_budget(gib=1, max_growth="1%")
    def test_mended():
        hold(0.05)

    @pytest.mark.mem_budget(max_growth="1%")
    def test_mended_alone():
        hold(0.05)
    """
BASE = {
    "membudget.lock.yaml": LOCK,
    "sizes.py": 'SIZES = {"less": 0.4, "over": 0.05, "allowed": 0.05, "rank 1": 0.03125}\n',
    "inner.py": "SIZE = 0.0625\n",
    "test_states.py": states("gone"),
    "test_mended.py": MENDED.format(line="import nowhere_to_be_found"),
    **story.base_files(),
}
HEAD = {
    "sizes.py": 'SIZES = {"less": 0.3, "over": 0.2, "allowed": 0.075, "rank 1": 0.125}\n',
    "inner.py": "SIZE = 0.125\n",
    "test_states.py": states("added"),
    "test_mended.py": MENDED.format(line=""),
    **story.head_files(),
}
STATES_OF = {
    "test_still_over": ("passed", "unchanged"),
    "test_same": ("passed", "unchanged"),
    "test_steady": ("passed", "unchanged"),
    "test_allowed": ("passed", "grown"),
    "test_rank_1_grows_above_rank_0": ("failed", "grown"),
    "test_less": ("passed", "shrunk"),
    "test_new_over": ("failed", "grown"),
    "test_excused": ("passed", "grown"),
    "test_expired": ("failed", "grown"),
    "test_growth_alone": ("failed", "grown"),
    "test_same_alone": ("passed", "unchanged"),
    "test_expected": ("xfailed", "grown"),
    "test_added": ("passed", "new"),
}


@pytest.fixture(scope="module")
def repository(tmp_path_factory, write_all):
    """``repository(base, head)`` is a folder at the branch ``change``, one commit after ``main``."""

    def make(base, head):
        folder = tmp_path_factory.mktemp("repository")
        git(folder, "init", "-q", "-b", "main")
        write_all(folder, {".gitignore": "__pycache__\nmembudget*\ntemporary\n.pytest_cache\n", **base})
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", "base")
        git(folder, "checkout", "-qb", "change")
        (folder / "temporary").mkdir()
        for name in [name for name, text in head.items() if text is None]:
            (folder / name).unlink()
        kept = {"pyproject.toml": base.get("pyproject.toml", "")}
        write_all(folder, {**kept, **{name: text for name, text in head.items() if text is not None}})
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", "head")
        return folder

    return make


@pytest.fixture(scope="module")
def compare(in_folder):
    """``compare(folder, *args)`` compares ``folder`` with ``main``, its temporary files in ``temporary``."""

    def run(folder, *args, base="main", env=None):
        asked = (f"--membudget-compare={base}",) if base else ()
        temporary = {"TMPDIR": str(folder / "temporary")}
        return in_folder(
            folder,
            "--membudget",
            "--membudget-report=membudget",
            *asked,
            *args,
            env={**temporary, **(env or {})},
        )

    return run


@pytest.fixture(scope="module")
def folder(repository):
    return repository(BASE, HEAD)


@pytest.fixture(scope="module")
def run(folder, compare, kept):
    return compare(folder, "-v", env=kept)


@pytest.fixture(scope="module")
def kept(tmp_path_factory, cache_in):
    """Of sessions over the same tests: what one has estimated the others need not."""
    return cache_in(tmp_path_factory.mktemp("kept"))


def comparison(run, name):
    return run.rows[name]["comparison"]


def growth_of(found, base=None):
    return found["bytes"] - (base or found["base"])["bytes"]


def finding(run, name, component):
    found = [one for one in comparison(run, name)["findings"] if one["component"] == component]
    return {one["location"]: one for one in found}


# What grew, in seven stories


def test_logits_in_fp32_are_named_at_the_line_that_casts_them(run):
    place = story.line_of(story.head_files(), "upcast.py", "logits.float()")
    found = finding(run, "test_logits", "activations")[place]

    assert found["bytes"] == 2048 * 8192 * 4
    assert found["operator"] == "aten::_to_copy"
    assert place in run.text("test_logits")


def test_activations_without_checkpointing_are_named_at_the_line_of_the_block(run):
    place = story.line_of(story.head_files(), "blocks.py", "torch.relu")
    found, *others = comparison(run, "test_checkpointing")["findings"]

    assert (found["component"], found["location"], found["module"]) == ("activations", place, "blocks.*")
    # a temporary of the checkpointed backward is of no line there, and of one without checkpointing
    assert sum(other["bytes"] for other in others) == 0


def test_a_cache_that_is_kept_is_named_where_its_keys_are_made(run):
    place = story.line_of(story.head_files(), "cached.py", "self.key(x)")
    found = finding(run, "test_cache", "activations")[place]

    assert found["bytes"] == 4 * 4096 * 256 * 4
    assert found["module"] == "key"


def test_another_optimizer_is_named_by_its_states_at_its_step(run):
    place = story.line_of(story.head_files(), "test_memory.py", "optimizer.step()")
    found = [
        one
        for one in comparison(run, "test_optimizer")["findings"]
        if (one["component"], one["location"]) == ("optimizer_states", place)
    ]

    assert [one["bytes"] for one in found] == [2048 * 2048 * 4] * 2
    assert [one["module"] for one in found] == ["weight.exp_avg", "weight.exp_avg_sq"]


def test_attention_with_a_mask_is_named_at_its_call(run):
    place = story.line_of(story.head_files(), "attend.py", "attn_mask=mask")
    first, *_ = comparison(run, "test_attention")["findings"]

    assert (first["component"], first["location"]) == ("activations", place)
    assert first["bytes"] == 4096 * 4096 * 2
    assert finding(run, "test_attention", "temporaries")


@pytest.mark.parametrize("name", ["test_rename", "test_comment"])
def test_other_names_and_comments_are_silent(run, name):
    found = comparison(run, name)

    assert (found["status"], growth_of(found), found["findings"]) == ("unchanged", 0, [])
    assert run.outcomes[name] == "passed"


@pytest.mark.parametrize(
    "name", ["test_logits", "test_checkpointing", "test_cache", "test_optimizer", "test_attention"]
)
def test_growth_fails_its_test_with_rows_that_explain_it(run, name):
    found = comparison(run, name)

    assert found["status"] == "grown"
    assert run.outcomes[name] == "failed"
    assert "BudgetExceeded: grown: takes" in run.message(name)
    assert "max_growth='1%' allows less" in run.text(name)
    assert len(found["findings"]) <= 6
    explained = sum(one["bytes"] for one in found["findings"])
    growth = growth_of(found)
    assert explained > 0 < growth
    if "peak" not in {one["kind"] for one in found["differences"]}:
        assert abs(explained - growth) <= 0.1 * growth


# What becomes of each test


@pytest.mark.parametrize(("name", "state"), STATES_OF.items())
def test_each_state_passes_or_fails_as_it_should(run, name, state):
    assert (run.outcomes[name], comparison(run, name)["status"]) == state


def test_code_that_a_body_imports_is_the_bases_own(run):
    found = comparison(run, "test_growth_alone")

    assert (found["base"]["bytes"], found["bytes"]) == (64 * MIB, 128 * MIB)


def test_the_worst_ranks_of_both_sides_are_compared(run):
    found = comparison(run, "test_rank_1_grows_above_rank_0")

    assert (found["base"]["bytes"], found["bytes"]) == (64 * MIB, 128 * MIB)
    assert [one["bytes"] for one in found["findings"]] == [64 * MIB]
    assert "rank 1 of 2" in run.text("test_rank_1_grows_above_rank_0")


def test_a_file_that_the_base_cannot_collect_is_not_comparable_and_says_why(run):
    found = comparison(run, "test_mended")

    assert found["status"] == "not comparable"
    assert "test_mended.py could not be collected: ModuleNotFoundError" in found["reason"]
    assert run.outcomes["test_mended"] == "passed"


def test_growth_alone_that_is_not_comparable_is_no_pass(run):
    assert run.rows["test_mended_alone"]["verdict"] == "unset"
    assert "not compared: the base's test_mended.py" in run.rows["test_mended_alone"]["reason"]


def test_removed_tests_and_entries_that_nothing_needs_are_listed(run):
    text = "\n".join(run.summary)

    assert run.report["comparison"]["removed"] == ["test_states.py::test_gone"]
    assert "removed since the base: test_states.py::test_gone" in text
    assert "membudget.lock.yaml: test_states.py::test_same keeps to its budget without its entry" in text


def test_the_base_is_the_merge_base(run, folder):
    assert run.report["comparison"]["base"] == "main"
    assert run.report["comparison"]["commit"] == git(folder, "rev-parse", "main")


def test_the_checkout_is_as_it_was_and_nothing_is_left(run, folder):
    assert (
        git(folder, "status", "--porcelain") == "?? junit.xml" or git(folder, "status", "--porcelain") == ""
    )
    assert len(git(folder, "worktree", "list").splitlines()) == 1
    assert git(folder, "symbolic-ref", "HEAD") == "refs/heads/change"
    assert not list((folder / "temporary").glob("membudget*"))


# The same with pytest-xdist and reruns, and of a part


@pytest.fixture(scope="module")
def apart(folder, compare, run, kept):
    """With pytest-xdist and reruns, without the stories."""
    pytest.importorskip("xdist")
    pytest.importorskip("pytest_rerunfailures")
    return compare(folder, "-n2", "--reruns=1", "test_states.py", "test_mended.py", env=kept)


def test_xdist_and_reruns_come_to_the_same(apart, run):
    def told(one):
        return {
            row["nodeid"]: (
                row["verdict"],
                row["comparison"]
                and {**row["comparison"], "base": {**(row["comparison"]["base"] or {}), "timeline": None}},
            )
            for row in one.report["tests"]
            if "test_memory" not in row["nodeid"]
        }

    assert told(apart) == told(run)
    assert {name: apart.outcomes[name] for name in STATES_OF} == {
        name: outcome for name, (outcome, _) in STATES_OF.items()
    }


def test_xdist_reports_what_was_removed_once_and_leaves_nothing(apart, folder):
    assert apart.report["comparison"]["removed"] == ["test_states.py::test_gone"]
    assert len(git(folder, "worktree", "list").splitlines()) == 1
    assert not list((folder / "temporary").glob("membudget*"))


# Without a base, and with a stored one


@pytest.fixture(scope="module")
def plain(folder, compare, run, kept):
    return compare(folder, base=None, env=kept)


def test_without_a_base_growth_alone_is_no_pass_and_says_what_to_run(plain):
    assert plain.rows["test_growth_alone"]["verdict"] == "unset"
    assert any(
        "test_growth_alone: takes " in line and "--membudget-compare" in line for line in plain.summary
    )


def test_without_a_base_the_growth_of_others_is_counted_as_not_compared(plain):
    assert plain.outcomes["test_same"] == "passed"
    assert any("13 not compared (max_growth needs --membudget-compare)" in line for line in plain.summary)


@pytest.fixture(scope="module")
def stored(folder, compare, plain, kept):
    report = copy.deepcopy(plain.report)
    rows = {row["nodeid"].partition("::")[2]: row for row in report["tests"]}
    peak = dict.fromkeys(("allocated", "reserved", "device"), MIB)
    rows["test_steady"]["estimates"][0].update(
        peak=peak, components={"inputs": MIB}, holders=[], timeline=None
    )
    rows["test_less"]["budget"]["gpu"] = "A100-40GB"
    report["distributions"]["pytest"] = "1.0"
    report["tests"].append({**rows["test_new_over"], "nodeid": "test_states.py::test_elsewhere"})
    (folder / "membudget-base.json").write_text(json.dumps(report))
    return compare(folder, base="membudget-base.json", env=kept)


def test_a_stored_report_is_a_base(stored):
    assert comparison(stored, "test_steady")["status"] == "grown"
    assert stored.outcomes["test_steady"] == "failed"
    assert comparison(stored, "test_same")["status"] == "unchanged"
    assert comparison(stored, "test_added")["status"] == "unchanged"
    assert stored.outcomes["test_still_over"] == "passed"


def test_what_is_installed_in_another_version_than_at_a_stored_report_is_the_headline(stored):
    change = f"pytest 1.0 -> {pytest.__version__}"

    assert f"grown with {change}: takes" in stored.message("test_steady")
    assert f"installed since the base: {change}" in stored.summary
    assert comparison(stored, "test_same")["distributions"] == {}


# When it goes wrong


def test_a_base_that_imports_the_heads_code_is_not_comparable(repository, compare):
    test = """
        import sys
        sys.path.insert(0, {here!r})
        import sized
        import pytest
        from holding import hold

        @pytest.mark.mem_budget(gib=1, max_growth="1%")
        def test_it():
            hold(sized.SIZE)
        """
    folder = repository({"lib/sized.py": "SIZE = 0.05\n", "test_it.py": ""}, {"lib/sized.py": "SIZE = 0.2\n"})
    git(folder, "checkout", "-q", "main")
    (folder / "test_it.py").write_text(
        "\n".join(line[8:] for line in test.format(here=str(folder / "lib")).splitlines()[1:])
    )
    git(folder, "commit", "-qam", "base")
    git(folder, "checkout", "-qB", "change")
    (folder / "lib" / "sized.py").write_text("SIZE = 0.2\n")
    run = compare(folder)

    found = comparison(run, "test_it")
    assert found["status"] == "not comparable"
    assert "imported sized from the head's checkout" in found["reason"]


def test_code_that_a_search_path_leads_to_is_the_bases_own(repository, compare):
    test = """
        import pytest
        import sized
        from holding import hold

        @pytest.mark.mem_budget(max_growth="1%")
        def test_it():
            hold(sized.SIZE)
        """
    files = {"tests/test_it.py": test}
    folder = repository(
        {"src/sized.py": "SIZE = 0.0625\n", **files}, {"src/sized.py": "SIZE = 0.125\n", **files}
    )
    path = os.pathsep.join([str(folder / "src"), str(folder)])
    run = compare(folder, "tests/test_it.py", env={"PYTHONPATH": path})

    found = comparison(run, "test_it")
    assert (found["base"]["bytes"], found["bytes"]) == (64 * MIB, 128 * MIB)
    assert run.outcomes["test_it"] == "failed"


def test_a_base_whose_conftest_fails_is_not_comparable_with_the_first_line_of_why(repository, compare):
    test = """
        import pytest
        from holding import hold

        @pytest.mark.mem_budget(gib=1)
        def test_it():
            hold(0.05)
        """
    folder = repository(
        {"conftest.py": "import nowhere_to_be_found\n", "test_it.py": test},
        {"conftest.py": "", "test_it.py": test},
    )
    run = compare(folder)

    assert run.status == 0
    assert comparison(run, "test_it")["status"] == "not comparable"
    assert "ImportError while loading conftest" in comparison(run, "test_it")["reason"]


@pytest.mark.usefixtures("warm_processes")
@pytest.mark.parametrize(("ending", "status"), [(signal.SIGINT, 2), (signal.SIGKILL, -signal.SIGKILL)])
def test_a_session_that_is_ended_leaves_no_worktree(repository, ending, status):
    slow = """
        import pytest, time

        @pytest.mark.mem_budget(gib=1)
        def test_slow():
            time.sleep(120)
        """
    folder = repository({"test_slow.py": slow}, {"new.py": ""})
    session = subprocess.Popen(
        [sys.executable, "-m", "pytest", "--membudget", "--membudget-compare=main"],
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder / "temporary"), "CUDA_VISIBLE_DEVICES": ""},
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    found = "membudget-base-*/worktree/*/test_slow.py"
    while not list((folder / "temporary").glob(found)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert list((folder / "temporary").glob(found))
    time.sleep(1)  # the base's process has begun
    session.send_signal(ending)

    assert session.wait(30) == status
    deadline = time.monotonic() + 30  # whoever is killed cannot do it itself
    while list((folder / "temporary").glob("membudget-base-*")) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert len(git(folder, "worktree", "list").splitlines()) == 1
    assert not list((folder / "temporary").glob("membudget-base-*"))
