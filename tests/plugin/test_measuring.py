"""Measuring beside estimating, on machines without a GPU: the virtual device stands in for the real one.

In a session of these tests the device that tests are measured on is the measuring device, run on the virtual
one. A body finds out which of the two it runs on, as no user's would, to make the figures differ.
"""

import pytest

ASKED = ("-p", "pytest_membudget.testing", "--membudget")
CONFTEST = """
    from pytest_membudget.testing import GivenDevice

    def pytest_membudget_estimates():
        return GivenDevice("stand_in:device")
    """
STAND_IN = """
    from pytest_membudget.devices import contract
    from pytest_membudget.hardware.gpus import find_gpu
    from pytest_membudget.devices.real.device import RealCudaDevice
    from pytest_membudget.devices.fake.device import VirtualDevice


    class Device(contract.Device):
        name = "CUDA"
        is_awake = False

        def __init__(self, order):
            self._virtual = VirtualDevice(find_gpu(order["gpu"]))

        def install(self):
            self._virtual.install()

        def card(self):
            return {"count": 1, "name": "Stand-in 40GB", "total_bytes": 40 * 2**30}

        def imported_bytes(self):
            return self._virtual.imported_bytes()

        def begin(self, gpu, *, limited):
            tracker = self._virtual._tracker
            self._virtual.begin(gpu, limited=False)
            def address_of(tensor):
                record = tracker.record_of(tensor)
                return record.block.address if record is not None else 0  # not recorded by the tracker

            self._cuda = RealCudaDevice(address_of)
            self._cuda.begin()

        def end(self, *, metric, root):
            return self._cuda.end(metric=metric, root=root)


    def device(order):
        return Device(order)
    """
#: The device that stands in for a GPU is one of fake tensors: so is what it is compared with.
PYPROJECT = """
    [tool.membudget]
    device = "fake"
    """
FILES = {
    "pyproject.toml": PYPROJECT,
    "conftest.py": CONFTEST,
    "stand_in.py": STAND_IN,
    "test_budgets.py": """
        import os
        import pytest
        from holding import hold

        def is_measured():
            return os.environ.get("CUDA_VISIBLE_DEVICES") != ""

        @pytest.mark.mem_budget(gib=2)
        def test_as_estimated():
            import torch
            model = torch.nn.Linear(8192, 8192, bias=False, device="cuda")
            model(torch.randn(64, 8192, device="cuda")).sum().backward()

        @pytest.mark.mem_budget(gib=1)
        def test_takes_more():
            kept = hold(1.25 if is_measured() else 0.5)

        @pytest.mark.mem_budget(gib=2)
        def test_takes_a_little_more():
            kept = hold(0.6 if is_measured() else 0.5)

        @pytest.mark.mem_budget(gib=1)
        def test_estimated_over():
            kept = hold(1.5)

        @pytest.mark.mem_budget(gib=1)
        def test_raises_on_cuda():
            kept = hold(0.5)
            if is_measured():
                raise ValueError("not on this card")

        @pytest.mark.mem_budget(gib=1, gpu="H100-80GB")
        def test_needs_a_larger_card():
            kept = hold(0.5)
        """,
}
NO_CUDA = {"test_budgets.py": FILES["test_budgets.py"]}
#: the worker for estimates has it empty
ON_CUDA = {"CUDA_VISIBLE_DEVICES": "0"}


@pytest.fixture(scope="module")
def run(session_of, both_ways):
    return session_of(FILES, *ASKED, *both_ways, env=ON_CUDA)


def measured(run, name):
    (report,) = run.rows[name]["measurements"]
    return report


def test_estimate_and_measurement_stand_in_one_row(run):
    row = run.rows["test_as_estimated"]
    (estimate,) = row["estimates"]

    assert row["verdict"] == "within"
    assert measured(run, "test_as_estimated")["kind"] == "measured"
    assert (
        measured(run, "test_as_estimated")["peak"]["allocated_bytes"] == estimate["peak"]["allocated_bytes"]
    )
    assert measured(run, "test_as_estimated")["components"] == estimate["components"]


def test_measured_over_budget_fails_though_the_estimate_is_within(run):
    assert run.outcomes["test_takes_more"] == "failed"
    assert "measured on CUDA: 0.25 GiB over its budget of 1 GiB" in run.message("test_takes_more")


def test_the_failure_has_both_figures_component_by_component(run):
    text = run.text("test_takes_more")

    assert "estimate     measured  ratio" in text
    assert "inputs" in text
    assert " 0.400" in text  # 0.5 of 1.25 GiB


def test_a_figure_over_the_disagreement_is_reported_and_passes(run):
    told = [line for line in run.summary if line.startswith("disagreement: ")]

    assert run.outcomes["test_takes_a_little_more"] == "passed"
    assert any("estimate 0.50 GiB, measured 0.60 GiB, ratio 0.833" in line for line in told)
    assert not any("test_as_estimated" in line for line in told)


def test_a_body_that_raises_on_cuda_fails_with_its_reason(run):
    assert run.outcomes["test_raises_on_cuda"] == "failed"
    assert "measured on CUDA: ValueError in call" in run.message("test_raises_on_cuda")
    assert "not on this card" in run.message("test_raises_on_cuda")


def test_what_is_over_already_is_not_measured(run):
    assert run.rows["test_estimated_over"]["not_measured"] == "over budget already"
    assert run.rows["test_estimated_over"]["measurements"] == []


def test_a_smaller_card_than_the_budgets_measures_nothing(run):
    reason = run.rows["test_needs_a_larger_card"]["not_measured"]

    assert reason == "the card here, Stand-in 40GB, is smaller than gpu='H100-80GB'"
    assert run.outcomes["test_needs_a_larger_card"] == "passed"


def test_the_summary_counts_what_was_measured_and_why_the_rest_was_not(run):
    line = next(line for line in run.summary if " measured" in line and " estimated" in line)

    assert "4 measured" in line
    assert "2 not measured" in line
    assert "not measured: 1 (over budget already)" in run.summary
    assert any(line.startswith("not measured: 1 (the card here") for line in run.summary)


def test_the_table_has_the_ratio(run):
    row = next(line for line in run.summary if "test_takes_more" in line and "GiB" in line)

    assert "1.25 GiB" in row
    assert "0.400" in row


@pytest.fixture(scope="module")
def without(session_of):
    return session_of(NO_CUDA, "--membudget", "-k", "as_estimated")


def test_without_cuda_the_estimate_decides_and_the_summary_says_so(without):
    assert without.outcomes["test_as_estimated"] == "passed"
    assert without.rows["test_as_estimated"]["measurements"] == []
    assert any(line.endswith(", 0 measured (no CUDA)") for line in without.summary)


def test_required_measuring_without_cuda_fails_with_the_reason(session_of):
    run = session_of(NO_CUDA, "--membudget", "--membudget-measure=require", "-k", "as_estimated")

    assert run.outcomes["test_as_estimated"] == "failed"
    assert "not measured: no CUDA: " in run.message("test_as_estimated")
    assert run.rows["test_as_estimated"]["verdict"] == "error"


def test_measuring_can_be_switched_off(session_of):
    run = session_of(FILES, *ASKED, "--membudget-measure=off", "-k", "takes_more", env=ON_CUDA)

    assert run.outcomes["test_takes_more"] == "passed"
    assert any(line.endswith(", 0 measured (switched off)") for line in run.summary)


def test_the_settings_may_allow_more_disagreement(session_of):
    files = {**FILES, "pyproject.toml": f'{PYPROJECT}max_disagreement = "20%"\n'}
    run = session_of(files, *ASKED, "-k", "little", env=ON_CUDA)

    assert run.outcomes["test_takes_a_little_more"] == "passed"
    assert not any(line.startswith("disagreement") for line in run.summary)
