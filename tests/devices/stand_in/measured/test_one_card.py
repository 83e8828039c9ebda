"""Measuring on one card: the measuring device itself, on PyTorch's own CUDA code and allocator."""

import pytest

MIB = 2**20

BODIES = """
    import sys
    import pytest

    def is_measured():
        return "pytest_membudget.devices.stand_in.device" not in sys.modules

    @pytest.mark.mem_budget(gib=1)
    def test_two_steps():
        import torch
        layers = torch.nn.Linear(4096, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 4096)
        model = torch.nn.Sequential(*layers).cuda()
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(2):
            model(torch.randn(64, 4096, device="cuda")).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

    @pytest.mark.mem_budget(gib=1, metric="device")
    def test_with_the_context():
        import torch
        kept = torch.empty(256 * 2**20, dtype=torch.uint8, device="cuda")

    @pytest.mark.mem_budget(gib=1)
    def test_takes_more_when_measured():
        import torch
        kept = torch.empty((1280 if is_measured() else 512) * 2**20, dtype=torch.uint8, device="cuda")

    @pytest.mark.mem_budget(gib=1)
    def test_runs_out_of_memory_when_measured():
        import torch
        kept = torch.empty((90 * 1024 if is_measured() else 512) * 2**20, dtype=torch.uint8, device="cuda")

    @pytest.mark.mem_budget(gib=1)
    def test_raises_when_measured():
        import torch
        kept = torch.empty(512 * 2**20, dtype=torch.uint8, device="cuda")
        if is_measured():
            raise ValueError("not on this card")
    """


@pytest.fixture(scope="module")
def run(measured_session):
    return measured_session({"test_budgets.py": BODIES})


def both(run, name):
    """The estimate of a test and its measurement."""
    row = run.rows[name]
    (estimate,), (measured,) = row["estimates"], row["measurements"]
    return estimate, measured


def test_what_is_measured_passes(run):
    estimate, measured = both(run, "test_two_steps")

    assert run.outcomes["test_two_steps"] == "passed", run.out
    assert (estimate["kind"], estimate["device"]) == ("traced", "stand-in")
    assert (measured["kind"], measured["device"]) == ("measured", "cuda")
    assert run.rows["test_two_steps"]["measured_on"] == "NVIDIA A100-SXM4-80GB"


def test_estimate_and_measurement_are_the_same_to_the_byte(run):
    estimate, measured = both(run, "test_two_steps")

    assert measured["peak"] == estimate["peak"]
    assert measured["components"] == estimate["components"]
    assert measured["holders"] == estimate["holders"]
    # two layers of 4,096 x 4,096 and 4,096 numbers of 4 bytes, and AdamW's two moments of each; its steps are
    # counted on the host
    parameters = 2 * (4096 * 4096 + 4096) * 4
    assert measured["components"]["parameters"] == parameters
    assert measured["components"]["optimizer_states"] == 2 * parameters


def test_what_is_outside_the_allocator_is_measured_as_the_context(run):
    estimate, measured = both(run, "test_with_the_context")

    # 503 MiB: context_bytes of the A100-80GB in gpus.yaml
    assert measured["components"]["context"] == 503 * MIB
    assert measured["peak"]["device_bytes"] == (256 + 503) * MIB
    assert measured["components"] == estimate["components"]


def test_what_takes_more_than_its_budget_fails(run):
    assert run.outcomes["test_takes_more_when_measured"] == "failed"
    message = run.message("test_takes_more_when_measured")
    assert "measured on CUDA: 0.25 GiB over its budget of 1 GiB" in message


def test_out_of_memory_is_over_its_budget_with_pytorchs_own_text(run):
    row = run.rows["test_runs_out_of_memory_when_measured"]

    assert row["verdict"] == "over"
    assert "CUDA out of memory. Tried to allocate 90.00 GiB." in row["reason"]


def test_a_body_that_raises_on_the_card_fails_with_its_reason(run):
    assert run.outcomes["test_raises_when_measured"] == "failed"
    assert "measured on CUDA: ValueError in call" in run.message("test_raises_when_measured")
    assert "not on this card" in run.text("test_raises_when_measured")
