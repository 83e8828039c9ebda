"""Snapshots in the report's folder: PyTorch's own tools read them, and they say what report.json says."""

import os
import pickle
from importlib.metadata import version

import pytest

from pytest_membudget.allocator.history import history_in
from pytest_membudget.units import GIB, MIB
from tests.allocator.played import last_blocks, play

RELEASE = tuple(int(part) for part in version("torch").split(".")[:2])
only_where_kept_and_shared = pytest.mark.skipif(
    not (2, 12) <= RELEASE < (2, 15), reason="cuBLAS's workspaces, counted here, differ by release"
)

FILES = {
    "test_steps.py": """
        import pytest

        def residual(x):
            import torch

            return torch.relu(x)

        @pytest.mark.mem_budget(gib=1)
        def test_training():
            import torch

            model = torch.nn.Sequential(torch.nn.Linear(700, 700), torch.nn.Linear(700, 700)).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for _ in range(2):
                loss = residual(model(torch.randn(300, 700, device="cuda"))).sum()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
            torch.cuda.empty_cache()
            kept = torch.empty(3 * 2**20 + 5, dtype=torch.uint8, device="cuda")
            pytest.kept = kept

        @pytest.mark.mem_budget(gib=1)
        def test_two_streams():
            import torch

            shared = torch.empty(2**20, device="cuda")
            shared.record_stream(torch.cuda.Stream())
            del shared
            torch.empty(2**20, device="cuda")

        @pytest.mark.mem_budget(gpu="RTX-4090")
        def test_out_of_memory():
            from holding import hold

            many = [hold(4) for _ in range(9)]

        @pytest.mark.mem_budget(gib=1)
        def test_over():
            from holding import hold

            hold(2)

        @pytest.mark.mem_budget(gib=1)
        def test_raises():
            from holding import hold

            held = hold(0.5)
            raise ValueError("none")

        @pytest.mark.mem_budget(gib=1)
        def test_nothing():
            pass
        """,
    "test_imports.py": """
        import pytest, torch
        from holding import hold

        TABLE = hold(0.25, "cuda" if torch.cuda.is_available() else "cpu")

        @pytest.mark.mem_budget(gib=1)
        def test_of_a_table():
            hold(0.5)
        """,
    "test_expandable.py": """
        import pytest
        import torch

        import test_steps

        @pytest.fixture(autouse=True)
        def segments_expand():
            torch.cuda.memory._set_allocator_settings("expandable_segments:True")

        @pytest.mark.mem_budget(gib=1)
        def test_training_expands():
            test_steps.test_training()

        @pytest.mark.mem_budget(gib=1)
        def test_two_streams_expand():
            test_steps.test_two_streams()

        @pytest.mark.mem_budget(gpu="RTX-4090")
        def test_out_of_memory_expands():
            test_steps.test_out_of_memory()
        """,
}
EXPANDABLE = ("test_training_expands", "test_two_streams_expand", "test_out_of_memory_expands")
WITHOUT = {"test_nothing"}
SETTINGS = {"pyproject.toml": "[tool.membudget]\nsnapshots = 'all'\n"}


@pytest.fixture(scope="module")
def run(session_of):
    """Of several processes, each of which leaves its tests' snapshots."""
    pytest.importorskip("xdist")
    return session_of(
        {**FILES, "pyproject.toml": SETTINGS["pyproject.toml"] + "advice = 'off'\n"}, "--membudget", "-n2"
    )


def snapshot_of(run, name):
    with (run.report_path.parent / run.rows[name]["snapshot"]).open("rb") as file:
        return pickle.load(file)


def with_snapshot(run):
    return [name for name in run.rows if name not in WITHOUT]


def trace_of(run, name):
    (trace,) = snapshot_of(run, name)["device_traces"]
    return trace


def peak_of(run, name):
    return run.rows[name]["estimates"][0]["peak"]


# What there is


def test_each_test_that_allocates_has_a_file_that_its_row_names(run):
    rows = run.rows

    files = {path.name for path in (run.report_path.parent / "snapshots").iterdir()}
    named = [rows[name]["snapshot"] for name in with_snapshot(run)]
    assert [rows[name]["snapshot"] for name in WITHOUT] == [None]
    assert {f"snapshots/{file}" for file in files} == set(named)
    assert len(files) == len(named) == 9


def test_segments_expand_where_they_are_asked_to(run):
    maps = {name for name in with_snapshot(run) for e in trace_of(run, name) if e["action"] == "segment_map"}

    assert maps == set(EXPANDABLE)


# PyTorch's own tools


def test_pytorchs_tools_read_every_snapshot(run):
    viz = pytest.importorskip("torch.cuda._memory_viz")
    for name in with_snapshot(run):
        snapshot = snapshot_of(run, name)
        viz.segsum(snapshot)
        viz.trace(snapshot)
        for text in (viz.memory, viz.segments):
            text(snapshot, format_flamegraph=lambda lines: lines)
        viz.compare(snapshot["segments"], snapshot["segments"], format_flamegraph=lambda lines: lines)
        assert "Active Memory Timeline" in viz.trace_plot(snapshot)
        assert "Allocator State History" in viz.segment_plot(snapshot)
        assert "Active Cached" in viz.trace_plot(snapshot, plot_segments=True, filter_freed=True)


@only_where_kept_and_shared
def test_pytorchs_summary_has_what_the_test_has_kept(run):
    viz = pytest.importorskip("torch.cuda._memory_viz")

    lines = viz.segsum(snapshot_of(run, "test_training")).splitlines()

    # 3 MiB and 5 bytes by the test; by cuBLAS, on an H100, 32 MiB for forward's thread and for backward's
    assert "total_allocated: 67.0MiB" in lines


# The same figures as the report's


def test_the_trace_played_again_gives_the_reported_peaks_and_state(run):
    for name in with_snapshot(run):
        history = history_in(snapshot_of(run, name), 0)
        played = play(history)
        assert {
            "allocated": played.peak_allocated_bytes,
            "reserved": played.peak_reserved_bytes,
        }.items() <= peak_of(run, name).items()
        assert played.blocks == last_blocks(history)


# What it tells of an allocation


def allocations(run, name, size):
    found = [e for e in trace_of(run, name) if e["action"] == "alloc" and e["size"] == size]
    assert found
    return found


def names_in(entry):
    return [frame["name"] for frame in entry["frames"]]


def test_an_allocation_has_its_operator_and_the_calls_up_to_the_test(run):
    # at::relu is at::clamp_min(self, 0): aten/src/ATen/native/Activation.cpp, 2.13
    relu = "aten::clamp_min"
    first, *_ = [e for e in allocations(run, "test_training", 300 * 700 * 4) if relu in names_in(e)]

    assert names_in(first) == [relu, "residual", "test_training"]
    assert [frame["line"] for frame in first["frames"]] == [0, 6, 15]
    assert first["frames"][1]["filename"] == str(run.folder / "test_steps.py")
    assert first["user_metadata"] == "activations"


def test_modules_and_torchs_own_calls_are_in_the_stacks(run):
    product = next(
        e
        for e in allocations(run, "test_training", 300 * 700 * 4)
        if names_in(e)[0].startswith("aten::addmm")
    )

    assert product["frames"][1]["filename"].endswith("torch/nn/modules/linear.py")
    assert names_in(product)[-1] == "test_training"
    assert product["user_metadata"] == "activations, 0"


def test_a_gradient_has_the_node_of_the_backward_that_made_it(run):
    gradient = allocations(run, "test_training", 700 * 700 * 4)[2]  # after two weights

    assert names_in(gradient)[:2] == ["aten::mm", "AddmmBackward0"]
    assert gradient["user_metadata"] == "gradients, 1.weight"
    # backward has threads of its own, without Python, as on a GPU
    assert names_in(gradient)[-1] == "backward"
    last = gradient["frames"][-1]
    assert last["filename"] == str(run.folder / "test_steps.py")
    assert last["line"] == 16


@only_where_kept_and_shared
def test_memory_inside_a_library_is_named_so(run):
    forward, backward = allocations(run, "test_training", 32 * MIB)

    assert names_in(forward)[0] == "aten::addmm workspace"
    assert names_in(backward)[:2] == ["aten::mm workspace", "AddmmBackward0"]
    assert forward["user_metadata"].startswith("workspaces")


def test_no_frame_is_pytests_or_this_packages(run):
    frames = [f for name in with_snapshot(run) for e in trace_of(run, name) for f in e["frames"]]

    assert len(frames) > 100
    assert not [f for f in frames if "_pytest" in f["filename"] or "pytest_membudget/" in f["filename"]]
    assert not [f for f in frames if "_subclasses" in f["filename"]]


def test_what_another_stream_holds_is_freed_later(run):
    actions = [e["action"] for e in trace_of(run, "test_two_streams") if "segment" not in e["action"]]

    assert actions[:4] == ["alloc", "free_requested", "free_completed", "alloc"]
    first, second = allocations(run, "test_two_streams", 4 * MIB)
    assert first["addr"] == second["addr"]


def test_out_of_memory_is_there_with_its_place(run):
    trace = trace_of(run, "test_out_of_memory")
    (oom,) = [entry for entry in trace if entry["action"] == "oom"]

    assert oom["size"] == 4 * GIB
    assert 0 <= oom["device_free"] < 4 * GIB
    assert names_in(oom)[-1] == "test_out_of_memory"
    assert sum(entry["action"] == "alloc" for entry in trace) == 5  # of 4 GiB, on a card of 24


# When it is written


TWO = """
    import pytest
    from holding import hold

    @pytest.mark.mem_budget(gib=1)
    def test_grows():
        hold({grows})

    @pytest.mark.mem_budget(gib=1)
    def test_ends():
        hold({ends})
    """


def test_one_of_tests_over_their_budgets_is_written_and_named_in_the_failure(session_of):
    settings = SETTINGS["pyproject.toml"].replace("all", "over")
    files = {"test_it.py": TWO.format(grows=1.5, ends=0.25), "pyproject.toml": settings}
    run = session_of(files, "--membudget")

    assert run.rows["test_ends"]["snapshot"] is None
    assert max(entry["size"] for entry in trace_of(run, "test_grows")) == 1536 * MIB
    path = run.report_path.parent / run.rows["test_grows"]["snapshot"]
    said = "".join(run.text("test_grows").split())
    assert f"Snapshot,forpytorch.org/memory_viz:{os.path.relpath(path, run.folder)}" in said


def test_the_last_run_counts(session_of, again, write_all):
    run = session_of({"test_it.py": TWO.format(grows=0.25, ends=0.25), **SETTINGS}, "--membudget")
    first = max(entry["size"] for entry in trace_of(run, "test_grows"))

    write_all(run.folder, {"test_it.py": TWO.format(grows=0.5, ends=0), **SETTINGS})
    last = again(run, "--membudget", "--membudget-report=membudget")

    assert (first, max(entry["size"] for entry in trace_of(last, "test_grows"))) == (256 * MIB, 512 * MIB)
    assert last.rows["test_ends"]["snapshot"] is None
    assert len(list((run.folder / "membudget" / "snapshots").iterdir())) == 1


def test_what_imports_allocate_is_reported_too(run):
    first, second = (e for e in trace_of(run, "test_of_a_table") if e["action"] == "alloc")

    assert (first["size"], second["size"]) == (256 * MIB, 512 * MIB)
    assert [(f["name"], f["line"]) for f in first["frames"][-1:]] == [("<module>", 4)]


def test_snapshots_that_cannot_be_written_are_reported_and_change_no_result(session_of):
    pytest.importorskip("xdist")  # in one process: tests/plugin/test_bad_places.py
    files = {"test_it.py": TWO.format(grows=0.25, ends=0.25), "membudget/snapshots": "a file", **SETTINGS}

    run = session_of(files, "--membudget", "-n2")

    assert run.status == 0
    assert "membudget: 2 of the snapshots could not be written: " in run.out
    assert [row["snapshot"] for row in run.report["tests"]] == [None, None]
