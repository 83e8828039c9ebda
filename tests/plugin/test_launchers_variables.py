"""What torchrun sets is there for a test with several GPUs; another one has what to write instead."""

import pytest

BODIES = """
    import os

    import pytest
    import torch
    import torch.distributed as dist
    from holding import hold

    @pytest.mark.mem_budget(gib=1)
    def test_reads_local_rank():
        hold(0.5, f"cuda:{os.environ['LOCAL_RANK']}")

    @pytest.mark.mem_budget(gib=1, gpus=1)
    def test_forms_a_group():
        dist.init_process_group("gloo")

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


@pytest.fixture(scope="module")
def run(session_of):
    return session_of({"test_bodies.py": BODIES}, "--membudget")


@pytest.mark.parametrize("name", ["test_reads_local_rank", "test_forms_a_group"])
def test_a_launchers_variable_that_is_missing(run, name):
    assert run.outcomes[name] == "failed"
    assert "os.environ.get('LOCAL_RANK', '0')" in run.text(name)
    assert "or more they are set" in run.text(name)


def test_another_variable_has_no_such_advice(run):
    assert "LOCAL_RANK" not in run.text("test_lacks_another_key")


@pytest.mark.parametrize("name", ["test_has_none_unless_it_sets_them", "test_has_them_with_two"])
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
