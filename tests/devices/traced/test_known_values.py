"""Values that follow from the program are right on the stand-in, and no assumption is listed for them.

Every expected value is what the same lines give on real tensors.
"""

import numpy
import pytest
import torch


def made_from_nothing(device):
    return [
        torch.arange(5, device=device).tolist(),
        torch.zeros(2, 2, device=device).tolist(),
        torch.ones(3, dtype=torch.long, device=device).tolist(),
        torch.full((2,), 2.5, device=device).tolist(),
        torch.eye(2, device=device).tolist(),
        torch.linspace(0, 1, 5, device=device).tolist(),
        torch.tril_indices(2, 2, device=device).tolist(),
    ]


def made_from_data(device):
    array = numpy.array([3, 1, 2])
    return [
        torch.tensor([1, 2], device=device).tolist(),
        torch.tensor([1.5, 2.0], device=device).tolist(),
        torch.tensor(7, device=device).item(),
        torch.tensor(array, device=device).tolist(),
        torch.from_numpy(array).to(device).tolist(),
        torch.as_tensor(array).to(device).tolist(),
        torch.randn(2, device=device).new_tensor([4, 5]).tolist(),
    ]


def computed(device):
    x = torch.tensor([3, 1, 2], device=device)
    return [
        x.cumsum(0).tolist(),
        x.diff().tolist(),
        (x == 1).tolist(),
        [x.sum().item(), x.max().item(), x.argmax().item(), x.float().mean().item()],
        x.sort().values.tolist(),
        [part.tolist() for part in x.topk(2)],
        torch.cat([x, x + 1]).tolist(),
        torch.where(x > 1, x, 0).tolist(),
        torch.bincount(x).tolist(),
        torch.nn.functional.one_hot(x).tolist(),
        (x / 2).tolist(),
    ]


def viewed(device):
    x = torch.arange(12, device=device).view(3, 4)
    return [x[1].tolist(), x[:, 2].tolist(), x[1:, ::2].tolist(), x.t()[0].tolist(), x[-1, -1].item()]


def written_in_place(device):
    x = torch.zeros(3, dtype=torch.long, device=device)
    x[1] = 5
    x += 1
    mask = torch.ones(2, 5, dtype=torch.bool, device=device)
    mask[1, 3:] = False
    steps = torch.tensor(0.0, device=device)
    steps += 1
    labels = torch.arange(4, device=device)
    labels[torch.tensor([True, False, True, False], device=device)] = -100
    copied = torch.empty(2, dtype=torch.long, device=device)
    copied.copy_(torch.tensor([8, 9]))
    return [x.tolist(), mask.tolist(), steps.item(), labels.tolist(), copied.tolist()]


def written_through_a_view(device):
    x = torch.arange(6, device=device)
    x[2:4].zero_()
    x[5:].fill_(9)
    return x.tolist()


def moved(device):
    x = torch.arange(3, device=device)
    return [
        x.cpu().tolist(), x.to("cuda").tolist(), x.to(torch.int32).tolist(), x.half().tolist(),
        x.bool().tolist(), x.clone().tolist(), x.detach().float().requires_grad_().tolist(),
        torch.tensor([1.0], device=device).view(torch.int32).tolist(),
    ]  # fmt: skip


def triangles(device):
    ones = torch.ones(3, 3, dtype=torch.bool, device=device)
    lowest = torch.full((3, 3), -1e9, device=device).triu(1)
    return [
        ones.tril().tolist(),
        ones.triu(1).sum(-1).tolist(),
        (lowest == 0).tolist(),
        ones.tril().all().item(),
    ]


BODIES = [
    made_from_nothing, made_from_data, computed, viewed, written_in_place, written_through_a_view, triangles,
]  # fmt: skip


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_values_are_those_of_real_tensors(trace, body):
    traced = trace(body, "cuda")

    assert traced.value == body("cpu")
    assert not traced.report.assumptions


def test_values_survive_a_move_and_a_cast(trace):
    traced = trace(moved, "cuda")

    assert traced.value == [
        [0, 1, 2], [0, 1, 2], [0, 1, 2], [0.0, 1.0, 2.0], [False, True, True], [0, 1, 2], [0.0, 1.0, 2.0],
        [0x3F800000],
    ]  # fmt: skip
    assert not traced.report.assumptions


def large_masks():
    ones = torch.ones(64, 4096, 4096, dtype=torch.bool, device="cuda")  # 1 GiB: not to be computed with
    numbers = torch.ones(4, 2**20, device="cuda")
    return [
        ones.all().item(), (~ones).any().item(), (ones & ones).all(dim=-1).all().item(),
        (ones.long() == 0).any().item(), ((1.0 - numbers) * -1e9 == 0).all().item(), numbers.sum().item(),
        numbers.sum(-1).tolist(), numbers.mean().item(), torch.zeros_like(numbers).max().item(),
    ]  # fmt: skip


def test_a_tensor_of_one_value_is_known_at_any_size(trace):
    traced = trace(large_masks)

    million = 2.0**20
    assert traced.value == [True, False, True, False, True, 4 * million, [million] * 4, 1.0, 0.0]
    assert not traced.report.assumptions


def large_mask_with_a_hole():
    ones = torch.ones(2**21, dtype=torch.bool, device="cuda")
    ones[3] = False
    return ones.all().item()


def test_a_write_into_a_large_tensor_of_one_value_makes_it_unknown(trace):
    traced = trace(large_mask_with_a_hole)

    assert len(traced.report.assumptions) == 1


def written_with_unknown(place):
    x = torch.zeros(3, device="cuda")
    unknown = torch.randn(3, device="cuda")
    if place == "add_":
        x.add_(unknown)
    elif place == "view":
        x[1:].copy_(unknown[1:])
    elif place == "normal_":
        x.normal_()
    elif place == "foreach":
        torch._foreach_add_([x], [unknown])
    elif place == "out":
        torch.exp(unknown, out=x)
    elif place == "data":
        x.data = unknown
    return x.tolist()


@pytest.mark.parametrize("place", ["add_", "view", "normal_", "foreach", "out", "data"])
def test_a_write_of_unknown_values_makes_a_tensor_unknown(trace, place):
    traced = trace(written_with_unknown, place)

    assert traced.value == [1.0, 1.0, 1.0]
    assert len(traced.report.assumptions) == 1


def summed_gradients(known_first):
    x, unknown = torch.randn(4, device="cuda", requires_grad=True), torch.randn(4, device="cuda")
    factors = [2.0, unknown] if known_first else [unknown, 2.0]
    sum((x * factor).sum() for factor in factors).backward()
    return x.grad.tolist()


@pytest.mark.parametrize("known_first", [True, False])
def test_the_sum_of_a_known_and_an_unknown_gradient_is_unknown(trace, known_first):
    """Autograd adds them in place, into the known one where it comes first."""
    traced = trace(summed_gradients, known_first)

    assert traced.value == [1.0] * 4
    assert len(traced.report.assumptions) == 1


def decided():
    unknown = torch.randn(4, device="cuda") > 0
    yes, no = torch.ones(4, dtype=torch.bool, device="cuda"), torch.zeros(4, dtype=torch.bool, device="cuda")
    yes = no | yes
    numbers = torch.randn(4, device="cuda").long() & no
    finished = torch.randn(4, device="cuda") > 0
    finished |= yes
    return [
        (unknown | yes).all().item(), (no & unknown).any().item(), torch.logical_or(yes, unknown).tolist(),
        numbers.max().item(), finished.all().item(),
    ]  # fmt: skip


def test_one_operand_may_decide_whatever_the_other_is(trace):
    """A generation ends at its length, whatever tokens were drawn."""
    traced = trace(decided)

    assert traced.value == [True, False, [True] * 4, 0, True]
    assert not traced.report.assumptions


def undecided():
    unknown = torch.randn(4, device="cuda") > 0
    yes, no = torch.ones(4, dtype=torch.bool, device="cuda"), torch.zeros(4, dtype=torch.bool, device="cuda")
    return [(unknown & yes).all().item(), (no | unknown).any().item()]


def test_the_other_operand_decides_nothing(trace):
    assert len(trace(undecided).report.assumptions) == 1


def resized():
    x = torch.arange(2, device="cuda")
    x.resize_(4)
    return len(x.tolist())


def test_a_resized_tensor_is_unknown(trace):
    traced = trace(resized)

    assert traced.value == 4
    assert len(traced.report.assumptions) == 1


def storage_used_again():
    seen = []
    for value in range(3):
        x = torch.full((4,), value, device="cuda")
        seen.append(x[0].item())
        del x
        y = torch.empty(4, dtype=torch.long, device="cuda")
        seen.append(y[0].item())  # a new tensor, perhaps in the same place
        del y
    return seen


def test_a_new_tensor_inherits_nothing_from_a_dead_one(trace):
    assert trace(storage_used_again).value == [0, 1, 1, 1, 2, 1]


def packed_sequences(positions):
    """The chain of transformers' find_packed_sequence_indices (masking_utils, 5.x)."""
    position_ids = torch.tensor(positions, device="cuda")[None]
    first = position_ids[:, :1] - 1
    sequences = (torch.diff(position_ids, prepend=first, dim=-1) != 1).cumsum(-1)
    return [bool((sequences[:, -1] == 0).all()), sequences.tolist()]


def test_packed_sequences_are_found(trace):
    one = trace(packed_sequences, [0, 1, 2, 3])
    two = trace(packed_sequences, [0, 1, 2, 0, 1])

    assert one.value == [True, [[0, 0, 0, 0]]]
    assert two.value == [False, [[0, 0, 0, 1, 1]]]
    assert not one.report.assumptions + two.report.assumptions


def finite():
    x = torch.randn(3000, 3000, device="cuda")
    return [
        torch.isnan(x).any().item(), torch.isinf(x).any().item(), torch.isfinite(x).all().item(),
        torch.isnan(x).sum().item(), bool(torch.isnan(x.sum())), (~torch.isfinite(x)).any().item(),
    ]  # fmt: skip


def test_a_healthy_run_is_finite(trace):
    traced = trace(finite)

    assert traced.value == [False, False, True, 0, False, False]
    assert not traced.report.assumptions


def infinite():
    x = torch.tensor([1.0, float("inf"), float("nan")], device="cuda")
    return [torch.isnan(x).tolist(), torch.isinf(x).tolist(), torch.isfinite(x).tolist()]


def test_what_is_known_not_to_be_finite_is_not(trace):
    assert trace(infinite).value == [[False, False, True], [False, True, False], [True, False, False]]


def scaled(growth_interval, steps):
    model = torch.nn.Linear(4, 4, device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda", init_scale=2.0**10, growth_interval=growth_interval)
    for _ in range(steps):
        scaler.scale(model(torch.randn(2, 4, device="cuda")).sum()).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
    return scaler.get_scale()


def test_a_grad_scaler_grows_as_it_does_where_nothing_overflows(trace):
    traced = trace(scaled, 2, 5)

    assert traced.value == 2.0**12  # doubled after the second and the fourth step
    assert not traced.report.assumptions


def step_counts(fused):
    parameter = torch.nn.Parameter(torch.randn(3, device="cuda"))
    optimizer = torch.optim.AdamW([parameter], fused=fused)
    parameter.grad = torch.ones_like(parameter)
    for _ in range(3):
        optimizer.step()
    return optimizer.state[parameter]["step"].item()


@pytest.mark.parametrize("fused", [True, False])
def test_an_optimizer_counts_its_steps(trace, fused):
    traced = trace(step_counts, fused)

    assert traced.value == 3.0
    assert not traced.report.assumptions


def too_large_sums():
    ones = torch.ones(2**17, 4, dtype=torch.float16, device="cuda")  # more are not computed one by one
    return [
        str(total)
        for total in (ones.sum(0)[0].item(), ones.float().sum(0)[0].item(), ones.long().sum().item())
    ]


def test_a_sum_beyond_the_range_of_its_type_is_infinite(trace):
    """131,072 ones in fp16, whose largest number is 65,504."""
    assert trace(too_large_sums).value == ["inf", "131072.0", "524288"]
