"""Budgets for several GPUs: estimated rank by rank without one, the worst rank decides, and it is named.

Bodies take plain bytes, by the rank that they are: what a rank takes is what stands here.
"""

from tests.report_fixtures import caveat_texts

ENV = {"LOCAL_WORLD_SIZE": "8"}
FILES = {
    "pyproject.toml": "[tool.membudget]\nsnapshots = 'all'\n",
    "test_budgets.py": """
        import pytest
        from holding import hold

        def rank():
            import torch.distributed as dist  # the process group is there before the body

            return dist.get_rank()

        @pytest.mark.mem_budget(gib=1, gpus=8)
        def test_identical(record_property):
            import torch.distributed as dist

            record_property("world size", dist.get_world_size())
            kept = hold(0.5)

        @pytest.mark.mem_budget(gib=1, gpus=2, components={"inputs": 0.75})
        def test_rank_1_is_over():
            kept = hold(1.25 if rank() else 0.5)

        @pytest.mark.mem_budget(gib=1, gpus=2)
        def test_rank_1_raises():
            kept = hold(0.5)
            if rank() == 1:
                raise ValueError("no such stage")

        @pytest.mark.mem_budget(gpu="RTX-4090", gpus=2)
        def test_rank_1_does_not_fit():
            kept = hold(30 if rank() else 0.5)

        @pytest.mark.mem_budget(gib=1, gpus=2, host_gib=0.5)
        def test_host_memory_of_both_ranks():
            import torch

            pinned = torch.empty(2**29 if rank() else 2**28, dtype=torch.uint8, pin_memory=True)
            kept = hold(0.5)

        @pytest.mark.mem_budget(gib=1)
        def test_one_gpu():
            import os

            assert "RANK" not in os.environ
            kept = hold(0.5)
        """,
}
HALF = 2**29


def peaks(run, name):
    return [(one["rank"], one["peak"]["allocated"]) for one in run.rows[name]["estimates"]]


def test_identical_ranks_are_not_all_estimated_and_the_report_says_so(run):
    assert run.outcomes["test_identical"] == "passed"
    row = run.rows["test_identical"]
    assert 1 <= len(row["estimates"]) < 8
    assert all(size == HALF for _, size in peaks(run, "test_identical"))
    assert row["reason"] == "rank 0 of 8: 50% of its budget of 1 GiB"
    assert all(any("rank" in text for text in caveat_texts(one)) for one in row["estimates"])


def test_what_a_test_records_comes_once(run):
    """With pytest-xdist: test_report_file.py."""
    assert run.rows["test_identical"]["properties"] == [["world size", 8]]
    entries = [(one.get("name"), one.get("value")) for one in run.cases["test_identical"].iter("property")]
    assert entries.count(("world size", "8")) == 1
    assert entries.count(("membudget.estimated_bytes", str(HALF))) == 1
    assert entries.count(("membudget.budget_bytes", str(2 * HALF))) == 1


def test_the_worst_rank_decides_and_is_named(run):
    assert run.outcomes["test_rank_1_is_over"] == "failed"
    assert "rank 1 of 2: 0.25 GiB over its budget of 1 GiB" in run.message("test_rank_1_is_over")
    assert peaks(run, "test_rank_1_is_over") == [(0, HALF), (1, 5 * HALF // 2)]


def test_the_failure_has_the_worst_rank_in_full_and_the_others_in_short(run):
    lines = [" ".join(line.split()) for line in run.text("test_rank_1_is_over").splitlines()]

    assert "test_budgets.py:16: mem_budget(gib=1, gpus=2, components={'inputs': 0.75})" in lines
    start = lines.index("Peak memory of rank 1 of 2:")
    assert lines[start + 1 : start + 3] == ["inputs 1.25 GiB 100.0%", "= total 1.25 GiB"]
    start = lines.index("Ranks by their peaks (2 of 2 estimated):")
    assert lines[start + 1 : start + 3] == ["rank 1 1.25 GiB", "rank 0 0.50 GiB"]


def test_a_rank_that_raises_is_named_with_its_line(run):
    assert run.outcomes["test_rank_1_raises"] == "failed"
    assert "rank 1 of 2: ValueError in call at test_budgets.py:24" in run.message("test_rank_1_raises")
    assert "no such stage" in run.text("test_rank_1_raises")


def test_a_rank_that_does_not_fit_the_card_is_named(run):
    message = run.message("test_rank_1_does_not_fit")

    assert "does not fit on RTX-4090: rank 1 of 2: CUDA out of memory" in message
    assert run.rows["test_rank_1_does_not_fit"]["verdict"] == "over"


def test_host_memory_is_that_of_all_ranks_of_the_machine(run):
    row = run.rows["test_host_memory_of_both_ranks"]
    over = "host memory 0.25 GiB over its budget of 0.5 GiB a machine"
    held = [one["host"]["peak"]["allocated"] for one in row["estimates"]]

    assert row["reason"] == f"{over}: ranks 0 to 1 of one hold 0.75 GiB together"
    assert held == [HALF // 2, HALF]
    assert row["host_bytes"] == 3 * HALF // 2
    line = next(line for line in run.summary if "::test_host_memory_of_both_ranks " in line)
    assert " 0.75 of 0.50 GiB " in line
    lines = [" ".join(line.split()) for line in run.text("test_host_memory_of_both_ranks").splitlines()]
    assert "= total 0.50 GiB 0.25 GiB" in lines  # of the card, and of the host beside it
    assert "rank 1 0.50 GiB host 0.50 GiB" in lines


def test_a_test_on_one_gpu_is_no_rank_whatever_has_started_the_session(run):
    assert run.outcomes["test_one_gpu"] == "passed"
    assert run.rows["test_one_gpu"]["rank"] is None


def test_each_rank_leaves_a_snapshot_and_the_row_has_that_of_the_worst(run):
    row = run.rows["test_rank_1_is_over"]
    folder = run.folder / "membudget"
    assert row["snapshot"].endswith("-rank1.pickle")
    assert (folder / row["snapshot"]).is_file()
    assert (folder / row["snapshot"].replace("-rank1", "-rank0")).is_file()
    assert "rank" not in run.rows["test_one_gpu"]["snapshot"].rpartition("one_gpu")[2]
