"""Parts of training steps as people write them: scalers, clipping, averages, checkpoints; figures by hand."""

import copy
import os
import tempfile

import pytest
import torch
from torch import nn

MIB = 2**20
#: cuBLAS's workspace a handle on an A100, and the handles after a backward: one a thread.
WORKSPACE = 8519680


def linear():
    """1 MiB of weights."""
    return nn.Linear(512, 512, bias=False, device="cuda")


def batch(rows=1):
    return torch.randn(rows, 512, device="cuda")


def clipped(how):
    model = nn.Sequential(*[linear() for _ in range(4)])
    model(batch()).sum().backward()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    norm = {
        "foreach": lambda: nn.utils.clip_grad_norm_(model.parameters(), 1.0),
        "one by one": lambda: nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=False),
        "finite": lambda: nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True),
        "value": lambda: nn.utils.clip_grad_value_(model.parameters(), 1.0),
    }[how]()
    left = torch.cuda.memory_allocated() - before
    return [left, torch.cuda.max_memory_allocated() - before, None if norm is None else list(norm.shape)]


@pytest.mark.parametrize(
    ("how", "left", "most", "shape"),
    [
        # blocks of 512 bytes: 4 norms, all of them in one, the norm of that
        ("foreach", 512, (4 + 1 + 1) * 512, []),
        ("one by one", 512, (4 + 1 + 1) * 512, []),
        # 4 norms, the norm; whether it is no number, its size and whether that is infinite
        ("finite", 512, (4 + 1 + 1 + 2) * 512, []),
        ("value", 0, 0, None),
    ],
)
def test_clipping_leaves_the_norm_alone(trace, how, left, most, shape):
    found = trace(clipped, how).value

    assert found == [left, most, shape]


def kept_norm():
    model = nn.Sequential(*[linear() for _ in range(4)])
    model(batch()).sum().backward()
    norms = torch._foreach_norm([parameter.grad for parameter in model.parameters()])
    filler = torch.empty(64 * MIB, dtype=torch.uint8, device="cuda")
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    return len(norms), filler.numel()


def test_norms_of_gradients_are_no_inputs(trace):
    """Made of a list of gradients before the step: 4 temporary numbers, where the filler makes the peak."""
    report = trace(kept_norm).report

    held = {(one.component, one.operator): one.bytes for one in report.holders}
    assert held["temporaries", "aten::_foreach_norm.Scalar"] == 4 * 4
    assert report.components["inputs"] == 64 * MIB


def concatenated():
    model = linear()
    outputs = [model(batch(512)) for _ in range(2)]
    joined = torch.cat(outputs)
    return torch.stack([batch(), batch()]).shape[0], joined.sum().backward()


def test_what_is_joined_of_outputs_is_no_input(trace):
    report = trace(concatenated).report

    inputs = [one for one in report.holders if one.component == "inputs"]
    assert not any(one.operator == "aten::cat" for one in inputs)


def scaled():
    model = linear()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for _ in range(2):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(batch(512)).float().square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    return [scaler.get_scale(), sorted(scaler.state_dict())]


def test_a_scaler_takes_its_two_numbers_and_its_steps_are_taken(trace):
    """Nothing overflows in a healthy run, so no step is skipped and the scale stays."""
    traced = trace(scaled)

    assert traced.value[0] == 65536.0
    assert traced.parameters == MIB
    # found_inf is read and known to be 0: no assumption but that of the run's health
    assert not traced.report.assumptions


def averaged(how):
    model = nn.Sequential(linear(), linear())
    swa = torch.optim.swa_utils
    if how == "deepcopy":
        average = copy.deepcopy(model).requires_grad_(False)
    elif how == "ema":
        average = swa.AveragedModel(model, multi_avg_fn=swa.get_ema_multi_avg_fn(0.99))
    else:
        average = swa.AveragedModel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = 0
    for _ in range(2):
        model(batch()).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        if how == "deepcopy":
            with torch.no_grad():
                torch._foreach_lerp_(list(average.parameters()), list(model.parameters()), 0.01)
        else:
            average.update_parameters(model)
    return torch.cuda.max_memory_allocated() - before


@pytest.mark.parametrize(
    ("how", "more"),
    [
        ("deepcopy", 0),  # in place, all at once
        ("ema", 512),  # _foreach_lerp_ as well; whether it is the first is asked of a number on the device
        ("swa", 4 * 512),  # with 1 / (n + 1) made of that number
    ],
)
def test_an_average_is_a_frozen_copy(trace, how, more):
    traced = trace(averaged, how)

    assert traced.parameters == traced.frozen_parameters == 2 * MIB
    assert traced.gradients == 2 * MIB
    assert traced.value == more


def saved_and_loaded(where):
    model = linear()
    optimizer = torch.optim.AdamW(model.parameters())
    model(batch()).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "checkpoint.pt")
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
        before = torch.cuda.memory_allocated()
        checkpoint = torch.load(path, map_location=where)
        loaded = torch.cuda.memory_allocated() - before
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    devices = {state["exp_avg"].device.type for state in optimizer.state.values()}
    state = next(iter(optimizer.state.values()))
    kept = state["exp_avg"].data_ptr() == checkpoint["optimizer"]["state"][0]["exp_avg"].data_ptr()
    del checkpoint, state
    return [loaded, torch.cuda.memory_allocated() - before, sorted(devices), kept]


@pytest.mark.parametrize(
    ("where", "loaded", "after", "kept"),
    [
        # parameters and both moments: 3 MiB; the optimizer takes its own as they are and lets the old ones go
        (None, 3 * MIB, 0, True),
        # and the number of steps, which was on the host
        ("cuda", 3 * MIB + 512, 512, True),
        ("cpu", 0, 0, False),
    ],
)
def test_a_checkpoint_is_on_the_device_that_it_is_mapped_to(trace, where, loaded, after, kept):
    assert trace(saved_and_loaded, where).value == [loaded, after, ["cuda"], kept]


def optimizer_states_loaded():
    model = linear()
    first = torch.optim.AdamW(model.parameters())
    model(batch()).sum().backward()
    first.step()
    second = torch.optim.AdamW(model.parameters())
    before = torch.cuda.memory_allocated()
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    both = torch.cuda.memory_allocated() - before
    del first
    second.step()
    return [both, torch.cuda.memory_allocated() - before]


def test_states_of_another_optimizer_are_copies_for_as_long_as_both_live(trace):
    assert trace(optimizer_states_loaded).value == [2 * MIB, 0]
