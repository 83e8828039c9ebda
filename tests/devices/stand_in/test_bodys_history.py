"""A history that a body begins has in a recorded run what it has without: PyTorch's own answer decides."""

import pytest
import torch

MIB = 2**20
memory = torch.cuda.memory


def product(size=1024):
    left = torch.ones(size, size, device="cuda")
    return left @ left


def told(snapshot):
    """Of each event its kind, size and metadata, and the lines of this file; of each block the same."""
    events = [[event["action"], event["size"], *_shown(event)] for event in snapshot["device_traces"][0]]
    blocks = [block for segment in snapshot["segments"] for block in segment["blocks"]]
    return [events, [[block["state"], block["size"], *_shown(block)] for block in blocks]]


def _shown(entry):
    frames = [
        frame for frame in entry.get("frames", ()) if frame["filename"].endswith("test_bodys_history.py")
    ]
    return entry.get("user_metadata", ""), [[frame["line"], frame["name"]] for frame in frames]


def begun(options):
    before = product()
    memory._record_memory_history(**options)
    kept = product(512)
    del before
    kept = [kept, product(256)]
    return told(memory._snapshot())


def begun_again():
    memory._record_memory_history()
    first = product()
    memory._record_memory_history(max_entries=50)
    kept = first, product(512)
    both = told(memory._snapshot())
    memory._record_memory_history(clear_history=True)
    kept = *kept, product(256)
    return both, told(memory._snapshot())


def ended():
    memory._record_memory_history()
    kept = [product()]
    memory._record_memory_history(enabled=None)
    kept.append(product(512))
    return told(memory._snapshot())


def never_begun():
    kept = product()  # noqa: F841
    return told(memory._snapshot())


def with_metadata():
    memory._record_memory_history()
    before = memory._get_memory_metadata()
    memory._set_memory_metadata("the step")
    kept = [product()]
    linear = torch.nn.Linear(512, 512, device="cuda")
    kept.append(linear(torch.ones(512, 512, device="cuda")))
    memory._set_memory_metadata("")
    kept.append(product(256))
    return before, told(memory._snapshot())


def begun_the_older_way():
    memory._record_memory_history(True, trace_alloc_max_entries=100, trace_alloc_record_context=True)
    kept = product()  # noqa: F841
    return told(memory._snapshot())


def wrong():
    with pytest.raises(RuntimeError) as raised:
        memory._record_memory_history(context="none")
    return str(raised.value).splitlines()[0]


OPTIONS = {
    "all": {},
    "few": {"max_entries": 4},
    "of allocations": {"context": "alloc"},
    "of the state": {"context": "state"},
    "without stacks": {"context": None},
    "the state alone": {"enabled": "state"},
    "Python's": {"stacks": "python"},
    "without frees": {"skip_actions": ["free_requested", "free_completed"]},
}


@pytest.mark.parametrize("how", OPTIONS)
def test_it_has_what_happens_from_then_on(stand_in, trace, how):
    assert trace(begun, OPTIONS[how]).value == stand_in(begun, OPTIONS[how])


@pytest.mark.parametrize("body", [begun_again, ended, never_begun, with_metadata, begun_the_older_way, wrong])
def test_other_calls_answer_as_pytorch_does(stand_in, trace, body):
    assert trace(body).value == stand_in(body)


@pytest.mark.parametrize("body", [begun_again, ended, with_metadata, begun_the_older_way])
def test_the_runs_own_record_is_whole(trace, body):
    traced = trace(body)

    assert traced.allocated
    assert not traced.unattributed
    assert traced.report.holders[0].location.startswith("test_bodys_history.py:")


def frames_of_a_product():
    memory._record_memory_history()
    kept = product()  # noqa: F841
    events = [event for event in memory._snapshot()["device_traces"][0] if event["action"] == "alloc"]
    return [[frame["filename"], frame["name"]] for event in events for frame in event["frames"]]


def test_no_frame_is_this_packages(trace):
    frames = trace(frames_of_a_product).value

    assert any("at::_ops::mm::call" in name for _, name in frames)
    assert not [name for name, _ in frames if "/pytest_membudget/" in name]


def changed_settings():
    kept = [product()]
    memory._set_allocator_settings("expandable_segments:True")
    kept.append(product(2048))
    memory._set_allocator_settings("expandable_segments:False,roundup_power2_divisions:4")
    kept.append(torch.empty(9 * MIB + 1, dtype=torch.uint8, device="cuda"))
    return torch.cuda.max_memory_allocated()


def test_settings_that_a_body_changes_leave_nothing_unattributed(trace):
    traced = trace(changed_settings)

    assert traced.value == traced.allocated
    assert not traced.unattributed
