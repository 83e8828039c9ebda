"""Workers are copies of a process that has imported torch, unless a copy might see that."""

import gc

import pytest

SAYING = """
    import gc
    import os
    import sys
    from pathlib import Path

    import pytest
    import torch

    COLLECTED = [[]]

    def parent(pid):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]

    @pytest.fixture(autouse=True)
    def said(record_property):
        record_property("module", next(text for text in sys.orig_argv if "pytest_membudget.worker" in text))
        record_property("template", parent(os.getppid()))
        record_property("card", f"{torch.cuda.device_count()} {torch.cuda.get_device_name()}")
        record_property("variables", f"{os.environ.get('JOB_OWN')} {os.environ.get('JOB_LESS')}")
        looks_at = [any(one is other for other in gc.get_objects()) for one in (vars(torch), COLLECTED)]
        record_property("garbage", f"{gc.isenabled()} {gc.get_threshold()} {looks_at}")
        record_property("compiler", "torch._dynamo" in sys.modules)
        torch.empty(2**20, device="cuda")

    @pytest.mark.mem_budget(gib=1)
    def test_default():
        pass

    @pytest.mark.mem_budget(gib=1)
    def test_another():
        pass

    @pytest.mark.mem_budget(gib=1, gpu="A100-80GB")
    def test_another_card():
        pass

    @pytest.mark.mem_budget(gib=1, gpus=2)
    def test_two_cards():
        pass
    """
COPY, OWN = "pytest_membudget.worker.template", "pytest_membudget.worker.__main__"


@pytest.fixture
def said(session_of):
    def run(files, *args, env=None):
        found = session_of({"test_saying.py": SAYING, **files}, "--membudget", *args, env=env)
        assert set(found.outcomes.values()) == {"passed"}, found.out
        return {name: dict(row["properties"]) for name, row in found.rows.items()}

    return run


def test_workers_are_copies_with_the_cards_and_variables_of_their_orders(said):
    changes = "\n    os.environ['JOB_OWN'] = 'set'\n    os.environ.pop('JOB_LESS', None)\n"
    found = said({"test_saying.py": SAYING + changes}, env={"JOB_LESS": "there"})

    assert {one["module"] for one in found.values()} == {COPY}
    assert len({one["template"] for one in found.values()}) == 1
    assert {one["variables"] for one in found.values()} == {"set None"}
    assert {one["garbage"] for one in found.values()} == {f"True {gc.get_threshold()} [False, True]"}
    assert {name: one["card"] for name, one in found.items()} == {
        "test_default": "1 NVIDIA H100 80GB HBM3",
        "test_another": "1 NVIDIA H100 80GB HBM3",
        "test_another_card": "1 NVIDIA A100-SXM4-80GB",
        "test_two_cards": "2 NVIDIA H100 80GB HBM3",
    }


@pytest.mark.parametrize(
    "line",
    ["os.environ['PYTORCH_ALLOC_CONF'] = 'expandable_segments:True'", "sys.path.insert(0, 'own')"],
    ids=["variable", "module"],
)
def test_what_torchs_import_may_have_read_is_no_copys(said, line):
    """What a file of tests does as it is imported comes too late for the template."""
    files = {"test_saying.py": f"{SAYING}\n    {line}\n", "own/sympy.py": ""}
    found = said(files, "-k", "default")["test_default"]

    assert found["module"] == OWN
    # its import in a test would keep what callers hold, until Python collects garbage; it imports sympy
    assert found["compiler"] is ("own" not in line)


def test_workers_are_copies_with_what_a_session_has_set_before_it_collects(said):
    setting = """
        import os

        def pytest_sessionstart():
            os.environ["OMP_NUM_THREADS"] = "3"
        """
    showing = "\n    os.environ['JOB_OWN'] = os.environ['OMP_NUM_THREADS']\n"
    one = said({"conftest.py": setting, "test_saying.py": SAYING + showing}, "-k", "default")["test_default"]

    assert (one["module"], one["variables"]) == (COPY, "3 None")


def test_without_a_selected_test_nothing_is_asked_of_a_worker(session_of):
    guarded = SAYING + "\n    if torch.cuda.is_available():\n        test_more = test_default\n"
    run = session_of({"test_saying.py": guarded}, "--membudget", "-k", "nothing_of_it")

    assert run.status == pytest.ExitCode.NO_TESTS_COLLECTED
    assert "exists only where" not in run.out


EARLY = """
    import os
    import time
    from pathlib import Path

    import pytest
    import torch

    imported = Path("imported")
    if torch.cuda.is_available():
        imported.open("a").write(f"{os.environ.get('JOB_OWN')} ")
    else:
        end = time.monotonic() + 60
        while not imported.exists() and time.monotonic() < end:
            time.sleep(0.05)
        assert imported.exists()

    @pytest.mark.mem_budget(gib=1)
    def test_one():
        torch.empty(2**20, device="cuda")
    """


@pytest.mark.parametrize(
    ("line", "imports"),
    [("", ["None"]), ("\n    os.environ['JOB_OWN'] = 'set'\n", ["None", "set"])],
    ids=["used", "another environment"],
)
def test_a_whole_sessions_worker_imports_what_the_session_does_at_the_same_time(session_of, line, imports):
    """It is used unless the session would now start another: with variables that a file has set, say."""
    run = session_of({"test_early.py": EARLY + line}, "--membudget")

    assert run.outcomes == {"test_one": "passed"}, run.out
    assert (run.folder / "imported").read_text().split() == imports


NO_BUDGET = """
    import os
    import time
    from pathlib import Path

    def test_plain():
        time.sleep(2)
        own = os.getpid()
        children = Path(f"/proc/{own}/task/{own}/children").read_text().split()
        assert not [pid for pid in children if b"membudget" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    """


def test_torch_is_imported_for_files_with_budgets_alone(session_of):
    run = session_of({"test_plain.py": NO_BUDGET}, "--membudget", is_cold=True)

    assert run.outcomes == {"test_plain": "passed"}, run.out
