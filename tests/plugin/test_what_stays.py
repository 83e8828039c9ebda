"""What stays when a body ends, and what a step leaves behind: said with its line, and held to a budget."""

MIB = 2**20
BODIES = """
    import pytest
    import torch
    from torch import nn

    KEPT = []
    CACHE = {}


    def generate(cached):
        found = torch.zeros(2**24, device="cuda")
        if cached:
            CACHE["keys"] = torch.zeros(2**25, device="cuda")
        return found.sum()


    @pytest.mark.mem_budget(gib=0.01)
    def test_kept():
        KEPT.append(torch.empty(2**24, device="cuda"))
        torch.empty(2**25, device="cuda")


    @pytest.mark.mem_budget(held_gib=0.01)
    def test_cache_that_stays():
        generate(True)


    @pytest.mark.mem_budget(held_gib=0.01)
    def test_cache_that_goes():
        generate(False)


    @pytest.mark.mem_budget(gib=0.001)
    def test_losses_with_their_graphs():
        model = nn.Linear(1024, 1024).cuda()
        optimizer = torch.optim.SGD(model.parameters())
        losses = []
        for _ in range(3):
            optimizer.zero_grad()
            hidden = model(torch.ones(1024, 1024, device="cuda"))
            loss = hidden.exp().mean()
            loss.backward(retain_graph=True)
            optimizer.step()
            losses.append(loss)


    @pytest.fixture
    def model():
        return nn.Linear(1024, 1024).cuda()


    @pytest.mark.mem_budget(gib=0.001)
    def test_steady(model):
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(1024, 1024, device="cuda")).sum().backward()
            optimizer.step()


    @pytest.mark.mem_budget(gib=0.001)
    def test_one_step_and_an_evaluation(model):
        optimizer = torch.optim.AdamW(model.parameters())
        model(torch.ones(1024, 1024, device="cuda")).sum().backward()
        optimizer.step()
        with torch.no_grad():
            model(torch.ones(1024, 1024, device="cuda"))


    @pytest.mark.mem_budget(held_gib=0.01)
    def test_stops_the_history():
        torch.cuda.memory._record_memory_history(enabled=None)
        KEPT.append(torch.empty(2**25, device="cuda"))


    @pytest.mark.mem_budget(held_gib=0.01)
    def test_begins_another_history():
        KEPT.append(torch.empty(2**25, device="cuda"))
        torch.cuda.memory._record_memory_history(max_entries=10)
        torch.empty(1, device="cuda")


    @pytest.fixture
    def evaluated():
        yield
        torch.empty(2**24, device="cuda")


    @pytest.mark.mem_budget(gib=0.1)
    def test_garbage_is_there_while_fixtures_end(evaluated):
        kept = [torch.empty(2**24, device="cuda")]
        kept.append(kept)
"""
#: Whose process has ended.
PROGRAM = """
    import torch

    kept = [torch.randn(2**24, device="cuda")]
    kept.append(kept)
    print(kept[0].sum().item())
"""


FILES = {
    "test_stays.py": BODIES,
    "program.py": PROGRAM,
    "a.membudget.yaml": "budgets: [{name: program, held_gib: 0.01, script: program.py}]\n",
    "pyproject.toml": "[tool.membudget]\nadvice = 'off'\n",
}
ARGS = ("--membudget", "test_stays.py", "a.membudget.yaml")


def held(run, name):
    return run.rows[name]["estimates"][0]["held"]


def test_what_is_kept_is_named_with_its_line(run):
    (row,) = held(run, "test_kept")["holders"]

    assert held(run, "test_kept")["bytes"] == 64 * MIB
    assert (row["bytes"], row["location"]) == (64 * MIB, "test_stays.py:18")
    assert "Still held when the body ends, 64.0 MiB:" in run.text("test_kept")
    assert "pytest_membudget" not in run.text("test_kept"), "no line of this plugin"


def test_a_cache_that_outlives_the_call_is_over_its_budget(run):
    reason = "0.12 GiB still held when the body ends, 0.12 GiB over its budget of 0.01 GiB"

    assert run.rows["test_cache_that_stays"]["reason"] == reason
    assert run.outcomes["test_cache_that_stays"] == "failed"
    assert "test_stays.py:12" in run.text("test_cache_that_stays")
    assert run.outcomes["test_cache_that_goes"] == "passed"
    assert held(run, "test_cache_that_goes")["bytes"] == 0


def test_reference_cycles_of_a_program_that_has_ended_hold_nothing(run):
    """Nor does it depend on the answer to a read whether Python has collected them."""
    [report] = run.rows["program"]["estimates"]

    assert (report["held"]["bytes"], report["caveats"]) == (0, [])
    assert run.outcomes["program"] == "passed"


def test_reference_cycles_of_a_test_hold_while_its_fixtures_end(run):
    assert run.rows["test_garbage_is_there_while_fixtures_end"]["verdict"] == "over"


def test_what_a_step_leaves_behind_is_named(run):
    """A retained graph of a step has the batch and what ``exp`` gave, 4 MiB each; and there is the loss."""
    leak = held(run, "test_losses_with_their_graphs")

    assert leak["grown"]["bytes"] == 8 * MIB + 512
    found = sorted(
        (row["location"], row["operator"].partition(".")[0], row["bytes"]) for row in leak["grown"]["holders"]
    )
    batch = "test_stays.py:39", "aten::ones", 4 * MIB
    assert found == [batch, ("test_stays.py:40", "aten::exp", 4 * MIB), ("test_stays.py:40", "aten::mean", 4)]
    said = "After the last step 8.0 MiB more is held than after the one before:"
    assert said in run.text("test_losses_with_their_graphs")


def test_steps_that_leave_nothing_behind_have_no_such_row(run):
    """By then parameters of 1,024 x 1,024 + 1,024, gradients and two states are there, in blocks of 512."""
    steady = held(run, "test_steady")

    assert steady["grown"] == {"bytes": 0, "holders": [], "grown": None}
    parameters = [row["bytes"] for row in steady["holders"] if row["component"] == "parameters"]
    assert sum(parameters) == 4 * (1024 * 1024 + 1024)


def test_an_evaluation_is_no_step_of_a_model_that_is_trained(run):
    """Its gradients and states are there after the one step, and are no leak."""
    assert held(run, "test_one_step_and_an_evaluation")["grown"] is None


def test_a_body_that_takes_the_history_away_does_not_hide_what_stays(run):
    for name in ("test_stops_the_history", "test_begins_another_history"):
        assert held(run, name)["bytes"] == held(run, name)["holders"][0]["bytes"] == 128 * MIB
        assert run.outcomes[name] == "failed"
