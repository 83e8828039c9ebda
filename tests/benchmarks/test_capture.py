"""The capture, its files and its accuracy, all on the stand-in in a card's place."""

import importlib
import json
import sys
from pathlib import Path

import pytest

from benchmarks import accuracy, capture
from benchmarks.captured import content_of, folder_of, history_path, read_captured
from benchmarks.compact_history import compact, load_history, read_snapshot
from benchmarks.history_places import operator_of, place_of
from benchmarks.step_processes import Run, step_environment
from benchmarks.steps.registry import STEPS
from benchmarks.steps.step import Step
from pytest_membudget.worker.client.order import SYMBOLS
from tests.allocator.played import play
from tests.warm_python import WarmPython

pytestmark = pytest.mark.slow

FAMILY = "tests.benchmarks.tiny_steps"
MIB = 2**20
TINY = (
    Step("trained", FAMILY, "trained", 0.1, {"width": 512}),
    Step("held", FAMILY, "held", 0.1, {"mib": 30}, "expandable_segments:True"),
)
FAILING = (Step("broken", FAMILY, "broken", 0.1), Step("too-large", FAMILY, "held", 0.1, {"mib": 200 * 1024}))


def captured_in(folder, steps):
    status = capture.main(["--device", "stand-in", "--out", str(folder), "--ahead", "1"], steps)
    return status, {one.step.id: one for one in read_captured(folder)}


@pytest.fixture(scope="module", autouse=True)
def _steps_run_in_copies(tmp_path_factory):
    """Of a process that has imported torch: which each step's process would do."""
    warm = WarmPython(("benchmarks.step_run",))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SYMBOLS.items():  # what a copy has; without a history it changes nothing
            patch.setenv(name, value)
        launcher = warm.launcher(
            step_environment(Run(TINY[0], "bare", "stand-in"), tmp_path_factory.mktemp("run"))
        )
        patch.setattr(sys, "executable", str(launcher or sys.executable))
        yield
    warm.close()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    folder = tmp_path_factory.mktemp("captured")
    return (folder, *captured_in(folder, TINY))


def test_an_estimate_finds_no_kernels_that_another_has_compiled(tmp_path):
    environment = step_environment(Run(TINY[0], "estimated", "stand-in", "H100-80GB"), tmp_path)

    assert Path(environment["TORCHINDUCTOR_CACHE_DIR"]).parent == tmp_path


def test_both_runs_of_a_step_have_the_same_peaks(tiny):
    _, status, found = tiny

    assert status == 0
    for one in found.values():
        assert one.outcome == "ok"
        assert one.content["changed_by_measuring"] == {}
        assert one.content["measured"]["peak"]["reserved"] == one.content["bare"]["reserved_bytes"]


def test_a_step_runs_with_its_own_allocator_settings(tiny):
    _, _, found = tiny

    # a request of 30 MiB: a segment of its size, or two pages of 20 MiB where segments expand
    assert found["held"].content["bare"]["allocated_bytes"] == 30 * MIB
    assert found["held"].content["bare"]["reserved_bytes"] == 40 * MIB


def test_a_step_is_stored_with_what_it_ran_on(tiny):
    folder, _, found = tiny
    one = found["trained"]

    assert one.path.parent == folder_of(folder, one.versions)
    assert one.versions["card"] == "NVIDIA H200"
    assert one.versions["capability"] == [9, 0]
    assert one.content["text"] == "A linear layer and AdamW, two updates."
    # two layers of 512 x 512 and 512 numbers, 4 bytes each, and two moments of every one
    assert one.content["measured"]["components"]["parameters"] == 2 * (512 * 512 + 512) * 4
    assert one.content["measured"]["components"]["optimizer_states"] >= 2 * 2 * (512 * 512 + 512) * 4


@pytest.mark.parametrize("name", ["trained", "held"])
def test_the_compact_history_replays_to_the_stored_peaks(tiny, name):
    _, _, found = tiny
    (history,) = load_history(found[name].history).values()

    played = play(history)

    bare = found[name].content["bare"]
    assert played.peak_allocated_bytes == bare["allocated_bytes"]
    assert played.peak_reserved_bytes == bare["reserved_bytes"]


def test_the_compact_history_says_what_allocated_where(tiny):
    _, _, found = tiny
    events = read_snapshot(found["trained"].history).events
    told = {(operator_of(event.frames), place_of(event.frames)) for event in events if event.frames}

    assert any(operator.startswith("aten::_foreach") for operator, _ in told)
    assert any(place.startswith("benchmarks/tiny_steps.py:") for _, place in told)
    assert any(place == "AddmmBackward0" for _, place in told)


def test_captured_steps_are_estimated_as_they_were_measured(tiny, capsys):
    folder, _, _ = tiny

    status = accuracy.main(["--captured", str(folder), "--family", "captured"])

    said = capsys.readouterr().out
    assert status == 0
    assert said.count("| 1.0000 |") == 4  # allocated and reserved of two steps
    assert "4 figures: median ratio 1.0000, worst 1.0000; under 0%, equal 100%, over 0%" in said


def test_a_wrong_measurement_is_reported_with_the_requests_that_differ(tiny, tmp_path, capsys):
    _, _, found = tiny
    one = found["trained"]
    folder = tmp_path / "card" / "torch"
    folder.mkdir(parents=True)
    content = json.loads(one.path.read_text())
    content["step"]["arguments"]["width"] = 256  # the history is that of 512
    (folder / "trained.json").write_text(json.dumps(content))
    history_path(folder / "trained.json").write_bytes(one.history.read_bytes())

    status = accuracy.main(["--captured", str(tmp_path), "--family", "captured"])

    said = capsys.readouterr().out
    assert status == 1
    assert "trained, allocated: " in said
    assert said.count("trained: not explained: held at the peak: ") == 3
    assert "x0 estimated" in said


def test_failures_are_stored_and_the_rest_runs(tmp_path, capsys):
    status, found = captured_in(tmp_path, FAILING)

    said = capsys.readouterr().out
    assert status == 1
    assert found["broken"].outcome == "error"
    assert "RuntimeError: the step is wrong" in found["broken"].content["message"]
    assert found["too-large"].outcome == "out of memory"
    assert "broken: error: RuntimeError: the step is wrong" in said
    assert found["broken"].history is None


def test_parts_have_every_step_once_and_take_equally_long():
    parts = [capture.of_part(STEPS, f"{number}/6") for number in range(1, 7)]

    assert sorted(step.id for part in parts for step in part) == sorted(step.id for step in STEPS)
    seconds = [sum(step.expected_seconds for step in part) for part in parts]
    assert max(seconds) - min(seconds) < max(step.expected_seconds for step in STEPS)
    assert max(seconds) < 600


def test_every_registered_step_has_a_function_with_a_text():
    assert len({step.id for step in STEPS}) == len(STEPS) >= 60
    for step in STEPS:
        function = getattr(importlib.import_module(step.module), step.function)
        assert function.__doc__
        assert Step.from_json(json.loads(json.dumps(step.to_json()))).id == step.id


def test_peaks_that_measuring_changed_are_stored_with_the_difference():
    bare = {"outcome": "ok", "allocated_bytes": 100, "active_bytes": 100, "reserved_bytes": 200}
    peak = {"allocated": 100, "reserved": 300, "device": 0}

    content = content_of(TINY[0], {}, bare, {"outcome": "ok", "report": {"peak": peak}})

    assert content["changed_by_measuring"] == {"reserved_bytes": 100}


def test_a_librarys_workspace_is_distinguished_from_the_operators_tensors():
    def frame(name, filename="??"):
        return {"filename": filename, "line": 1, "name": name}

    allocate = frame(
        "c10::cuda::CUDACachingAllocator::Native::NativeCachingAllocator::allocate(unsigned long)"
    )
    product = [frame("at::_ops::mm::call(at::Tensor const&)"), frame("f", "/home/me/net.py")]
    of_tensor = [allocate, frame("at::detail::empty_generic(c10::ArrayRef<long>)"), *product]
    of_cublas = [allocate, frame("at::cuda::getCUDABlasLtWorkspace()"), *product]
    content = {
        "device_traces": [
            [
                {"action": "alloc", "addr": 512 * number, "size": 512, "stream": 0, "frames": frames}
                for number, frames in enumerate([of_tensor, of_cublas])
            ]
        ],
        "segments": [],
    }

    history = compact(content, 0, "")

    assert history["operators"] == ["aten::mm", "aten::mm workspace"]
    assert history["places"] == ["me/net.py:1"]
    assert history["requests"] == [[0, 0], [1, 0]]
