"""What torchrun sets is there for a test with several GPUs; another one has what to write instead."""

import pytest

BODIES = """
    import os

    import pytest
    import torch.distributed as dist
    from holding import hold

    @pytest.mark.mem_budget(gib=1)
    def test_reads_local_rank():
        hold(0.5, f"cuda:{os.environ['LOCAL_RANK']}")

    @pytest.mark.mem_budget(gib=1)
    def test_forms_a_group():
        dist.init_process_group("gloo")

    @pytest.mark.mem_budget(gib=1, gpus=1)
    @pytest.mark.parametrize("backend", ["nccl", "gloo", None])
    def test_has_them_with_one(backend):
        names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR")
        assert [os.environ[name] for name in names] == ["0", "0", "1", "1", "0", "localhost"]
        assert not dist.is_initialized()  # as under torchrun
        dist.init_process_group(backend)
        assert (dist.get_rank(), dist.get_world_size()) == (0, 1)
        kept = hold(0.5, f"cuda:{os.environ['LOCAL_RANK']}")

    @pytest.mark.mem_budget(gib=1)
    def test_has_none_unless_it_sets_them(monkeypatch):
        assert not {"RANK", "LOCAL_RANK", "WORLD_SIZE"} & set(os.environ)
        monkeypatch.setenv("LOCAL_RANK", "0")
        kept = hold(0.5, f"cuda:{os.environ['LOCAL_RANK']}")

    @pytest.mark.mem_budget(gib=1, gpus=2)
    def test_has_them_with_two():
        kept = hold(0.5, f"cuda:{os.environ['LOCAL_RANK']}")

    @pytest.mark.mem_budget(gib=1)
    def test_lacks_another_key():
        os.environ["NO_SUCH_VARIABLE"]
    """


SCRIPT = """
    import os

    import torch

    kept = torch.empty(2**20, device=f"cuda:{os.environ['LOCAL_RANK']}")
    """
SCRIPTS = """
    defaults: {gib: 1}
    budgets:
      - {name: launched, gpus: 1, script: one.py}
      - {name: alone, script: one.py}
    """


FILES = {"test_bodies.py": BODIES, "one.py": SCRIPT, "scripts.membudget.yaml": SCRIPTS}


@pytest.mark.parametrize("name", ["test_reads_local_rank", "test_forms_a_group", "alone"])
def test_a_launchers_variable_that_is_missing(run, name):
    assert run.outcomes[name] == "failed"
    assert "Write gpus=1 in the mark, or gpus: 1 in the script's entry, and they are set" in run.text(name)


def test_another_variable_has_no_such_advice(run):
    assert "LOCAL_RANK" not in run.text("test_lacks_another_key")


@pytest.mark.parametrize(
    "name",
    [
        "test_has_none_unless_it_sets_them",
        "test_has_them_with_two",
        "launched",
        *(f"test_has_them_with_one[{backend}]" for backend in ("nccl", "gloo", "None")),
    ],
)
def test_where_they_are_set_the_body_goes_on(run, name):
    assert run.outcomes[name] == "passed", run.text(name)


@pytest.mark.parametrize(("rank", "world_size"), [("0", "2"), ("3", "16")])
def test_a_session_of_a_launcher_is_refused_with_what_to_do(session_of, rank, world_size):
    variables = {"RANK": rank, "WORLD_SIZE": world_size}
    run = session_of({"test_bodies.py": BODIES}, "--membudget", env=variables, report=False)

    assert run.status == pytest.ExitCode.USAGE_ERROR
    assert f"a launcher has started this session as one of {world_size} ranks" in run.err
    assert "run pytest --membudget itself without the launcher" in run.err


def test_a_launcher_of_one_process_is_none(session_of):
    variables = {"RANK": "0", "WORLD_SIZE": "1"}
    run = session_of({"test_bodies.py": BODIES}, "--membudget", "-k", "nothing", env=variables)

    assert run.status == pytest.ExitCode.NO_TESTS_COLLECTED
