"""Entries with ``script:``: programs run as they are, held to budgets as marked tests are."""

import json
import os

import pytest

MIB = 2**20
FILES = {
    "jobs/train.py": """
        import argparse
        import os
        import pickle
        import sys
        import warnings

        from model import buffer  # next to the script, and another one than the tests'

        class Config: ...

        if __name__ == "__main__":
            parser = argparse.ArgumentParser()
            parser.add_argument("--mib", type=int)
            parser.add_argument("--text", default="")
            parser.add_argument("--exit", default=None)
            options = parser.parse_args()
            pickle.loads(pickle.dumps(Config()))  # finds its class in the module __main__
            assert os.path.samefile(sys.argv[0], __file__)
            assert os.path.basename(os.getcwd()) == "jobs"
            mib = options.mib + len(options.text) + int(os.environ["JOB_MIB"])
            kept = buffer(mib)
            warnings.warn("printed, as by python train.py", FutureWarning)
            if options.exit is not None:
                sys.exit(int(options.exit))
        """,
    "jobs/model.py": """
        import torch

        def buffer(mib):
            return torch.empty(mib * 2**20, dtype=torch.uint8, device="cuda")
        """,
    "jobs/ranks.py": """
        import os

        import torch
        from torch.distributed import get_world_size, init_process_group

        init_process_group("nccl")
        assert get_world_size() == int(os.environ["WORLD_SIZE"]) == 2
        kept = torch.empty(2**20 * (1 + int(os.environ["RANK"])), dtype=torch.uint8, device="cuda")
        """,
    "conftest.py": """
        import os

        # before the program is run: what is imported then, as torch is, sees its variables
        os.environ["JOB_MIB"] = os.environ.get("JOB_MORE_MIB", "0")
        """,
    "jobs/parted.py": """
        from model import buffer
        from sized import MIB

        kept = buffer(MIB)
        """,
    "jobs/parts/sized.py": "MIB = 7",
    "jobs/empty.py": "",
    "jobs/raising.py": """
        import torch

        def check(loss):
            raise ValueError("too large")

        check(torch.rand(2**20, device="cuda").exp())
        """,
    "pytest.ini": """
        [pytest]
        filterwarnings = error::FutureWarning
        """,
    "model.py": "",
    "test_other.py": """
        import model
        import pytest
        from holding import hold

        @pytest.mark.mem_budget(gib=1)
        def test_marked():
            kept = hold(0.5)
        """,
    "train.membudget.yaml": """
        defaults:
          cwd: jobs
          gib: 1
        budgets:
          - name: trains
            script: train.py --mib=64 --text 'two words.'
          - name: over
            script: train.py --mib=1026
          - name: module
            script: -m train --mib=3
          - name: grid
            grid: {script: ['train.py --mib=1', 'train.py --mib=2']}
          - name: environment
            script: train.py --mib=1
            environment: {JOB_MORE_MIB: 4}
          - name: good-end
            script: train.py --mib=1 --exit=0
          - name: bad-end
            script: train.py --mib=1 --exit=3
          - name: usage
            script: train.py --mbi=1
          - name: takes-nothing
            script: empty.py
          - name: ranks
            script: ranks.py
            gpus: 2
          - name: missing
            script: trian.py
          - name: import-path
            script: parted.py
            environment: {PYTHONPATH: parts}
          - name: raises
            script: raising.py
        """,
}
PEAKS = {
    "trains": 64 + len("two words."), "over": 1026, "module": 3, "grid[script=train.py --mib=1]": 1,
    "grid[script=train.py --mib=2]": 2, "environment": 5, "good-end": 1, "ranks": 2, "test_marked": 512,
    "import-path": 7,
}  # fmt: skip
FAILED = {"over", "bad-end", "usage", "takes-nothing", "missing", "raises"}


def test_what_a_program_allocates_is_its_estimate(run):
    assert {name: run.allocated(name) / MIB for name in PEAKS if name != "ranks"} == {
        name: size for name, size in PEAKS.items() if name != "ranks"
    }
    assert {name for name, outcome in run.outcomes.items() if outcome != "passed"} == FAILED


def test_each_rank_runs_the_program(run):
    reports = run.rows["ranks"]["estimates"]

    assert max(report["peak"]["allocated"] for report in reports) == PEAKS["ranks"] * MIB


def test_its_lines_hold_the_memory(run):
    [holder] = run.rows["over"]["estimates"][0]["holders"]

    assert holder["location"] == "jobs/model.py:4"
    assert "train.membudget.yaml:7: gib: 1" in run.text("over")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("bad-end", "ScriptExit in call at jobs/train.py:24 on the stand-in: exit status 3"),
        ("usage", "unrecognized arguments: --mbi=1"),
        ("takes-nothing", "allocated nothing on cuda"),
        ("missing", "train.membudget.yaml:28: script: trian.py: there is no "),
    ],
)
def test_a_program_that_cannot_be_estimated_says_why(run, name, message):
    assert message in run.text(name)


def test_a_program_that_raised_has_not_read_what_pytest_shows_of_its_arguments(run):
    text = run.text("raises")

    assert "ValueError in call at jobs/raising.py:4 on the stand-in: too large" in text
    assert "Assumed of the data" not in text


SEGMENTS = """
    import os

    {first}
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    import torch

    kept = [torch.empty(30 * 2**20, dtype=torch.uint8, device="cuda") for _ in range(10)]
    del kept
    kept = torch.empty(280 * 2**20, dtype=torch.uint8, device="cuda")
    """


def test_a_program_sets_its_allocator_before_it_takes_memory(session_of):
    first = "import torch; taken = torch.empty(1, device='cuda'); del taken"
    files = {
        "sets.py": SEGMENTS.format(first=""),
        "late.py": SEGMENTS.format(first=first),
        "a.membudget.yaml": json.dumps(
            {"budgets": [{"name": name, "script": f"{name}.py", "gib": 1} for name in ("sets", "late")]}
        ),
    }
    run = session_of(files, "--membudget")

    reserved = {name: run.rows[name]["estimates"][0]["peak"]["reserved"] / MIB for name in ("sets", "late")}
    # ten segments of 30 MiB are none for 280; one that grows is
    assert reserved == {"sets": 300, "late": 582}


EAGER = """
    import os

    os.environ["TORCH_COMPILE_DISABLE"] = "1"
    import torch

    @torch.compile
    def scaled(x):
        return ((x + 1) * 2).relu()

    scaled(torch.zeros(2**20, device="cuda"))
    """


def test_a_program_switches_the_compiler_off(session_of):
    entry = {"name": "eager", "script": "eager.py", "gib": 1}
    run = session_of({"eager.py": EAGER, "a.membudget.yaml": json.dumps({"budgets": [entry]})}, "--membudget")

    # the input, a sum and its double; where a kernel is tuned it is far more
    assert run.rows["eager"]["estimates"][0]["peak"]["allocated"] == 3 * 4 * MIB


LOGS = """
    import logging
    import torch

    logging.basicConfig(filename="steps.log", level=logging.INFO)
    for step in range(4):
        logging.info("step %d: %s", step, torch.zeros(2**18, device="cuda"))
    assert len(open("steps.log").readlines()) == 4
    """


def test_a_program_logs_as_without_pytest_which_keeps_what_is_logged(session_of):
    entry = {"name": "logs", "script": "logs.py", "gib": 1}
    run = session_of({"logs.py": LOGS, "a.membudget.yaml": json.dumps({"budgets": [entry]})}, "--membudget")

    assert run.outcomes == {"logs": "passed"}
    assert MIB <= run.rows["logs"]["estimates"][0]["peak"]["allocated"] < 2 * MIB


# The cache

KEPT = """
    defaults: {{gib: 1, cwd: jobs}}
    budgets:
      - {{name: budget, gib: {gib}, script: train.py --mib=8}}
      - {{name: arguments, script: train.py --mib={mib}}}
      - {{name: environment, script: train.py --mib=8, environment: {{JOB_MORE_MIB: '{more}'}}}}
      - {{name: module, script: other.py}}
    """


def test_a_program_is_estimated_again_if_it_has_changed_and_not_if_its_budget_has(
    session_of, again, write_all, tmp_path_factory
):
    env = {"MEMBUDGET_CACHE_DIR": str(tmp_path_factory.mktemp("kept"))}
    other = {"jobs/other.py": "from size import mib; from model import buffer; kept = buffer(mib)"}
    files = {name: FILES[name] for name in ("conftest.py", "jobs/train.py", "jobs/model.py")} | other
    entries = {"f.membudget.yaml": KEPT.format(gib=1, mib=8, more=0), "jobs/size.py": "mib = 8"}
    changed = {"f.membudget.yaml": KEPT.format(gib=2, mib=16, more=2), "jobs/size.py": "mib = 32"}
    report = ("--membudget", "--membudget-report=membudget")
    run = session_of(files | entries, *report, report=False, env=env)
    write_all(run.folder, changed)
    run = again(run, *report, env=env)

    found = {name: (row["cached"], run.allocated(name) / MIB) for name, row in run.rows.items()}
    assert found == {
        "budget": (True, 8),
        "arguments": (False, 16),
        "environment": (False, 10),
        "module": (False, 32),
    }


# Elsewhere

RESUMES = """
    import os
    import sys

    import torch

    kept = torch.rand(2**20, device="cuda")
    print(kept.norm().item())
    for path in sys.argv[1:]:
        if not os.path.exists(path):  # else it has been trained
            kept = torch.cat([kept, kept])
            os.makedirs(os.path.dirname(path), exist_ok=True)
            torch.save(kept[:1].clone(), path)
    """


def test_further_runs_find_no_checkpoint_where_the_program_runs_and_in_its_outputs(
    session_of, tmp_path, write_all
):
    folder, outputs = tmp_path / "checkout", [str(tmp_path / "out"), str(tmp_path / "kept" / "of-it")]
    write_all(folder, {"train.py": RESUMES})
    paths = ["here/last.pt", *(f"{output}/last.pt" for output in outputs)]
    script = f"train.py {' '.join(paths)}"
    entry = {"name": "resumes", "script": script, "gib": 1, "cwd": str(folder), "outputs": outputs}
    run = session_of({"a.membudget.yaml": json.dumps({"budgets": [entry]})}, "--membudget")
    [figure] = run.rows["resumes"]["estimates"]

    assert figure["caveats"] == []
    assert {*figure["variants"]} == {figure["peak"]["allocated"]}
    assert not any(os.path.exists(folder / path) for path in paths)
    assert not [*tmp_path.rglob("*.membudget")]


RESUMES_AS_RANKS = """
    import os
    import time

    import torch
    import torch.distributed as dist

    dist.init_process_group("nccl")
    rank = dist.get_rank()
    kept = torch.rand(2**20, device="cuda").exp_()
    if rank == 0:
        os.makedirs("out", exist_ok=True)
        with open("out/words", "w") as file:
            file.write("prepared by rank 0")
    dist.barrier()
    assert os.path.exists("out/words")
    if os.path.exists("out/steps") and os.listdir("out/steps"):  # it has been trained
        with open("out/latest") as file:
            kept = torch.load(f"out/steps/{file.read()}/model.pt")
    else:
        kept = torch.cat([kept, kept])
    print(kept.norm().item())
    os.makedirs("out/steps", exist_ok=True)
    torch.save(kept[rank:].clone(), f"out/steps/of-{rank}.pt")
    if rank == 0:
        step = str(time.time_ns())
        os.makedirs(f"out/steps/{step}")
        torch.save(kept[:1].clone(), f"out/steps/{step}/model.pt")
        with open("out/latest", "w") as file:
            file.write(step)
    dist.barrier()
    with open("out/latest") as file:
        torch.load(f"out/steps/{file.read()}/model.pt")
    """


def test_a_rank_finds_no_checkpoint_of_another_before_it_asks_for_it(session_of, tmp_path):
    files = {
        "train.py": RESUMES_AS_RANKS,
        "a.membudget.yaml": json.dumps(
            {"budgets": [{"name": "resumes", "gpus": 2, "gib": 1, "script": "train.py"}]}
        ),
    }
    run = session_of(files, "--membudget")

    found = [figure["peak"]["allocated"] for figure in run.rows["resumes"]["estimates"]]
    # twice 4 MiB, and the copy that is saved; before torch 2.13 also what a barrier reduces
    assert [round(one / MIB, 3) for one in found] == [16] * 2
    assert not [path for path in tmp_path.rglob("*") if path.name == "out" or path.suffix == ".membudget"]
