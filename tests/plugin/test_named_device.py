"""What a session's estimates are made on: header and report name it, options and settings choose it."""

import pytest

from pytest_membudget.devices.stand_in.environment import cuda_version_of_torch

FILES = {
    "test_budgets.py": """
        import pytest
        from holding import hold

        @pytest.mark.mem_budget(gib=1)
        def test_half(request):
            hold(0.5)
        """
}
IS_CUDA_BUILD = cuda_version_of_torch() is not None
NO_CUDA = "torch is a build without CUDA; a CUDA build, which needs no GPU, gives exact figures"

only_cuda_builds = pytest.mark.skipif(not IS_CUDA_BUILD, reason="torch is a build without CUDA")
only_cpu_builds = pytest.mark.skipif(IS_CUDA_BUILD, reason="torch is a CUDA build")


def files(setting=""):
    return {**FILES, "pyproject.toml": f"[tool.membudget]\n{setting}\n"}


def header(run):
    (line,) = [line for line in run.lines if line.startswith("membudget: estimates on a ")]
    return line


def held_half_on(run, device):
    assert run.outcomes == {"test_half": "passed"}, run.out
    (figure,) = run.rows["test_half"]["estimates"]
    return figure["device"] == device and figure["peak"]["allocated_bytes"] == 2**29


@only_cuda_builds
@pytest.mark.parametrize("args", [(), ("--membudget-device=auto",), ("--membudget-device=stand-in",)])
def test_a_cuda_build_runs_on_the_stand_in(session_of, args):
    run = session_of(FILES, "--membudget", *args)

    assert header(run).startswith("membudget: estimates on a stand-in H100-80GB ")
    assert f"(by PyTorch's own code for CUDA {cuda_version_of_torch()})" in header(run)
    assert held_half_on(run, "stand-in")


@only_cpu_builds
def test_a_cpu_build_runs_on_fake_tensors_and_says_what_is_better(session_of):
    run = session_of(FILES, "--membudget")

    assert header(run).startswith("membudget: estimates on a fake H100-80GB ")
    assert f"(by fake tensors: {NO_CUDA})" in header(run)
    assert held_half_on(run, "fake")


@only_cpu_builds
def test_on_a_cpu_build_the_stand_in_cannot_be_asked_for(session_of):
    run = session_of(FILES, "--membudget", "--membudget-device=stand-in", report=False)

    assert run.status == 4
    assert f"the stand-in cannot run here: {NO_CUDA}; write --membudget-device=fake, or auto" in run.err
    assert "Traceback" not in run.err + run.out


@pytest.mark.parametrize(
    ("setting", "args"),
    [
        ("", ("--membudget-device=fake",)),
        ("device = 'fake'", ()),
        ("device = 'stand-in'", ("--membudget-device=fake",)),
    ],
)
def test_fake_tensors_can_be_asked_for_on_any_build(session_of, setting, args):
    run = session_of(files(setting), "--membudget", *args)

    assert header(run).startswith("membudget: estimates on a fake H100-80GB ")
    assert "(by fake tensors, as asked for)" in header(run)
    assert held_half_on(run, "fake")


def test_a_kept_estimate_is_of_its_device(session_of, again):
    """What was estimated on one device is not used for the other, and is there for its own."""
    first = session_of(FILES, "--membudget", "--membudget-device=fake")
    cache = {"MEMBUDGET_CACHE_DIR": str(first.folder / "kept")}
    report = "--membudget-report=membudget"
    fake = ("--membudget", "--membudget-device=fake", report)

    assert not again(first, *fake, env=cache).rows["test_half"]["cached"]
    other = again(first, "--membudget", report, env=cache)
    assert other.rows["test_half"]["cached"] == (not IS_CUDA_BUILD)
    back = again(first, *fake, env=cache)
    assert back.rows["test_half"]["cached"]
    assert held_half_on(back, "fake")
