"""One step on one device, component by component; every figure by hand arithmetic.

The card is an A100 (compute capability 8.0), whose cuBLAS workspace is 8,519,680 bytes.
"""

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

MIB = 2**20
WORKSPACE = 8_519_680
#: torch 2.15 gives cuBLAS workspaces back at the end of each operator
KEPT = 1 if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 15) else 0


def one_biased_linear_holds():
    """A linear with a bias runs in cuBLASLt: 1 MiB of its own until 2.11, and from 2.15 on, there alone."""
    release = tuple(map(int, torch.__version__.split(".")[:2]))
    if release >= (2, 15):
        return MIB
    return WORKSPACE + (MIB if release <= (2, 11) else 0)


def linear(bias=False):
    return nn.Linear(1024, 1024, bias=bias, device="cuda")


def step(model, optimizer, rows=1024, steps=2):
    for _ in range(steps):
        batch = torch.randn(rows, 1024, device="cuda")
        model(batch).sum().backward()
        if optimizer is not None:
            optimizer.step()
            optimizer.zero_grad()


def adamw(foreach, fused):
    model = nn.Sequential(*[linear() for _ in range(8)])
    step(model, torch.optim.AdamW(model.parameters(), foreach=foreach, fused=fused), rows=1)


@pytest.mark.parametrize(
    ("foreach", "fused", "temporaries"),
    [
        (None, None, 32 * MIB),  # CUDA's default is foreach: one list of square roots, as large as the model
        (True, None, 32 * MIB),
        # a parameter's square root, its quotient, and the quotient of the parameter before
        (False, None, 12 * MIB),
    ],
)
def test_adamw_holds_two_states_and_its_steps_own_temporaries(trace, foreach, fused, temporaries):
    traced = trace(adamw, foreach, fused)

    assert traced.parameters == 32 * MIB
    assert traced.gradients == 32 * MIB
    assert traced.optimizer_states == 64 * MIB
    assert traced.temporaries == temporaries
    assert traced.workspaces == 2 * WORKSPACE * KEPT


def test_fused_adamw_has_no_temporaries_and_keeps_its_steps_on_the_device(trace):
    traced = trace(adamw, None, True)

    assert traced.gradients == 32 * MIB
    assert traced.optimizer_states == 64 * MIB + 8 * 4  # a step count a parameter
    assert traced.temporaries <= 2 * 4096  # backward's rows; the step itself takes nothing


def sgd_without_momentum():
    model = linear()
    step(model, torch.optim.SGD(model.parameters(), lr=0.1))


def test_plain_sgd_has_no_state(trace):
    traced = trace(sgd_without_momentum)

    assert traced.parameters == traced.gradients == 4 * MIB
    assert traced.optimizer_states == 0


def forward_alone(layers, grad):
    model = nn.Sequential(*[layer for _ in range(layers) for layer in (linear(), nn.GELU())])
    batch = torch.randn(1024, 1024, device="cuda")
    with torch.set_grad_enabled(grad):
        loss = model(batch).sum()
    if grad:
        loss.backward()


def test_activations_are_what_backward_needs(trace):
    """Each GELU keeps its input, each linear its own: the batch or the GELU's output before it, 4 MiB each.

    The peak is in the backward of the last linear, where the last GELU's input is gone: 7 inputs of GELUs
    and 7 outputs are left, and the gradients of the linear's output, its input and its weight are there.
    """
    traced = trace(forward_alone, 8, True)

    assert traced.activations == 14 * 4 * MIB + 2 * 4  # and the loss with its own gradient
    assert traced.inputs == 4 * MIB
    assert traced.temporaries == 2 * 4 * MIB
    assert traced.gradients == 4 * MIB


def test_without_gradients_nothing_is_kept(trace):
    traced = trace(forward_alone, 8, False)

    assert traced.activations <= 4 * MIB  # the output that the model hands to its caller
    assert traced.allocated < 8 * 4 * MIB + 4 * 4 * MIB + 2 * WORKSPACE


class Checkpointed(nn.Module):
    def __init__(self, use_reentrant, blocks=8):
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(linear(), nn.GELU(), linear(), nn.GELU()) for _ in range(blocks)
        )
        self.use_reentrant = use_reentrant

    def forward(self, x):
        for block in self.blocks:
            if self.use_reentrant is None:
                x = block(x)
            else:
                x = checkpoint(block, x, use_reentrant=self.use_reentrant)
        return x


def checkpointed(use_reentrant):
    model = Checkpointed(use_reentrant)
    batch = torch.randn(4096, 1024, device="cuda", requires_grad=True)
    model(batch).sum().backward()


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_checkpointing_keeps_block_inputs_only(trace, use_reentrant):
    plain = trace(checkpointed, None)
    traced = trace(checkpointed, use_reentrant)

    # of 16 MiB each. Plain: 15 inputs and 15 outputs of GELUs where the last linear runs backward (as above).
    # Checkpointed: at most the outputs of 7 blocks, and what one block of four operators keeps.
    assert plain.activations == 30 * 16 * MIB + 2 * 4
    assert 8 * 16 * MIB <= traced.activations <= (7 + 4) * 16 * MIB + 2 * 4


def mixed_precision(scaler_on):
    model = linear()
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cuda", enabled=scaler_on)
    for _ in range(2):
        with torch.autocast("cuda", dtype=torch.float16):
            output = model(torch.randn(1024, 1024, device="cuda"))
            assert output.dtype is torch.float16
        scaler.scale(output.float().sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    return scaler.get_scale(), output.dtype is torch.float16


def test_autocast_and_grad_scaler_take_their_steps(trace):
    traced = trace(mixed_precision, True)

    assert traced.value == [65536.0, True]
    assert traced.optimizer_states // MIB == 8  # the step was taken: no overflow was made up


def accumulation(micro_batches):
    model = linear()
    for _ in range(micro_batches):
        model(torch.randn(1024, 1024, device="cuda")).sum().backward()


def test_gradient_accumulation_adds_in_place(trace):
    """The second micro-batch's weight gradient is a temporary beside the accumulated one."""
    assert trace(accumulation, 1).gradients == 4 * MIB
    assert trace(accumulation, 4).allocated <= trace(accumulation, 1).allocated + 4 * MIB


def clipped(foreach):
    model = nn.Sequential(*[linear() for _ in range(4)])
    model(torch.randn(1, 1024, device="cuda")).sum().backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=foreach, error_if_nonfinite=True)
    return norm.item()


@pytest.mark.parametrize("foreach", [None, True, False])
def test_clipping_runs_on_gradients_that_are_finite(trace, foreach):
    assert trace(clipped, foreach).value == 1.0


def step_in_backward(in_backward):
    model = nn.Sequential(*[linear() for _ in range(16)])
    optimizers = {p: torch.optim.SGD([p], lr=0.1, foreach=False) for p in model.parameters()}

    def hook(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    if in_backward:
        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(hook)
    model(torch.randn(1, 1024, device="cuda")).sum().backward()


def test_a_step_in_backward_holds_one_gradient_at_a_time(trace):
    after, within = trace(step_in_backward, False), trace(step_in_backward, True)

    assert after.gradients == 16 * 4 * MIB
    assert within.gradients <= 2 * 4 * MIB
    assert after.allocated - within.allocated >= 14 * 4 * MIB


def moved_and_converted():
    model = nn.Sequential(*[nn.Linear(1024, 1024, bias=False) for _ in range(8)])
    model.cuda()
    before = torch.cuda.memory_allocated()
    model.bfloat16()
    return before, torch.cuda.memory_allocated()


def test_converting_parameters_frees_each_old_one_at_once(trace):
    """As ``.data =`` does on a real device: 32 MiB and one bf16 parameter of 2 MiB at the peak."""
    traced = trace(moved_and_converted)

    assert traced.value == [32 * MIB, 16 * MIB]
    assert traced.allocated == 32 * MIB + 2 * MIB


def teacher_and_student(frozen_by_flag):
    teacher, student = linear(), linear()
    if frozen_by_flag:
        teacher.requires_grad_(False)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
    for _ in range(2):
        batch = torch.randn(1024, 1024, device="cuda")
        with torch.no_grad():
            target = teacher(batch)
        (student(batch) - target).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize("frozen_by_flag", [True, False])
def test_a_teacher_is_frozen_whether_by_flag_or_by_no_grad(trace, frozen_by_flag):
    traced = trace(teacher_and_student, frozen_by_flag)

    assert traced.frozen_parameters == 4 * MIB
    assert traced.parameters == 4 * MIB


def buffers():
    module = nn.BatchNorm1d(1024, device="cuda")
    module(torch.randn(2, 1024, device="cuda")).sum().backward()


def test_buffers_are_a_component(trace):
    assert trace(buffers).buffers == 2 * 4096 + 8  # running mean and variance, and the number of batches


def nothing_on_cuda():
    torch.randn(1024, 1024) @ torch.randn(1024, 1024)


def test_host_tensors_are_not_charged(trace):
    assert trace(nothing_on_cuda).allocated == 0


def full_card():
    held = [torch.empty(2**30, dtype=torch.uint8, device="cuda") for _ in range(100)]
    del held


def catches_out_of_memory():
    held = []
    try:
        while True:
            held.append(torch.empty(2**30, dtype=torch.uint8, device="cuda"))
    except torch.cuda.OutOfMemoryError as error:
        return len(held), str(error)


def test_a_limited_card_runs_out_of_memory_as_cuda_does(trace):
    """A T4 has 14.56 GiB, less its context: fourteen buffers of 1 GiB fit."""
    count, text = trace(catches_out_of_memory, gpu="T4", limited=True).value

    assert count == 14
    assert text.startswith(
        "CUDA out of memory. Tried to allocate 1024.00 MiB. GPU 0 has a total capacity of 14.56 GiB"
    )


def test_an_unlimited_card_never_runs_out(trace):
    assert trace(full_card, gpu="T4").allocated == 100 * 2**30


def inference_mode():
    model = nn.Sequential(linear(True), linear(True))
    with torch.inference_mode():
        scale = torch.tensor([1.0], device="cuda")
        output = model(torch.randn(2, 512, 1024, device="cuda")) * scale
    return list(output.shape)


def test_inference_mode_runs_composite_operators_as_cuda_does(trace):
    traced = trace(inference_mode)

    assert traced.value == [2, 512, 1024]
    assert traced.workspaces == one_biased_linear_holds()  # no backward, so one thread


def reserved():
    held = torch.empty(1, device="cuda"), torch.empty(21 * MIB, dtype=torch.uint8, device="cuda")
    del held


def test_reserved_counts_whole_segments(trace):
    """2 MiB for the small pool, and 22 MiB for 21: the rest of 1 MiB is not split off, and so allocated."""
    traced = trace(reserved, metric="reserved")

    assert traced.report.peak.reserved_bytes == 24 * MIB
    assert traced.rounding == MIB + 508
    assert traced.cached == 2 * MIB - 512


def test_device_adds_the_context(trace):
    traced = trace(reserved, metric="device")

    assert traced.report.peak.device_bytes == 24 * MIB + traced.context
    assert traced.context > 0
