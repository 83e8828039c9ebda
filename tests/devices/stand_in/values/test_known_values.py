"""Values that follow from the program are right on the stand-in, and no assumption is listed for them."""

import numpy
import pytest
import torch

F = torch.nn.functional
MIB = 2**20


def written_in_place(device):
    x = torch.zeros(3, dtype=torch.long, device=device)
    x[1] = 5
    x += 1
    mask = torch.ones(2, 5, dtype=torch.bool, device=device)
    mask[1, 3:] = False
    labels = torch.arange(4, device=device)
    labels[torch.tensor([True, False, True, False], device=device)] = -100
    copied = torch.empty(2, dtype=torch.long, device=device)
    copied.copy_(torch.tensor([8, 9]))
    viewed = torch.arange(6, device=device)
    viewed[2:4].zero_()
    viewed[5:].fill_(9)
    return [x, mask, labels, copied, viewed]


def inverted(device):
    """A permutation's inverse, as torch.nn.utils.rnn and mixtures of experts compute it."""
    order, places = torch.tensor([2, 0, 1], device=device), torch.arange(3, device=device)
    indexed = torch.empty_like(order)
    indexed[order] = places
    return [torch.empty_like(order).scatter_(0, order, places), indexed]


def in_inference_mode(device):
    with torch.inference_mode():
        x = torch.arange(4, device=device)
        x += 1
        return [x, x[x > 2], x * 2.0]


def on_the_default_device(device):
    with torch.device(device):
        x = torch.arange(4)
        return [x, (x > 1).nonzero(), torch.ones(3).sum(), torch.tensor([torch.ones(()), 3])]


def packed_sequences(device):
    """The chain of transformers' find_packed_sequence_indices (masking_utils, 5.x)."""
    found = []
    for positions in ([0, 1, 2, 3], [0, 1, 2, 0, 1]):
        position_ids = torch.tensor(positions, device=device)[None]
        first = position_ids[:, :1] - 1
        sequences = (torch.diff(position_ids, prepend=first, dim=-1) != 1).cumsum(-1)
        found += [(sequences[:, -1] == 0).all(), sequences]
    return found


def selected(device):
    """Shapes that depend on data."""
    x, counts = torch.zeros(4, 6, device=device), torch.tensor([1, 2, 3], device=device)
    rows = torch.tensor([True, False, True, True], device=device)
    return [
        x[rows], x[torch.ones(4, 6, dtype=torch.bool, device=device).tril()], x[:, :4][:, rows],
        torch.masked_select(x, rows[:, None]), torch.arange(4, device=device)[rows], *torch.where(rows),
        rows.nonzero(), torch.unique(counts[[0, 0, 2]]), torch.unique_consecutive(counts),
        torch.repeat_interleave(counts), x[:3].repeat_interleave(counts, dim=0),
        *torch.zeros(6, device=device).split(counts.tolist()), torch.bincount(counts), F.one_hot(counts),
        *torch.zeros(10, device=device).tensor_split(torch.tensor([2, 5])),
    ]  # fmt: skip


#: What runs on the card as it does on the host.
BODIES = {
    "made from nothing": lambda d: [
        torch.arange(5, device=d), torch.zeros(2, 2, device=d), torch.ones(3, dtype=torch.long, device=d),
        torch.full((2,), 2.5, device=d), torch.eye(2, device=d), torch.linspace(0, 1, 5, device=d),
        torch.tril_indices(2, 2, device=d),
    ],
    "made from data": lambda d: [
        torch.tensor([1, 2], device=d), torch.tensor([1.5, 2.0], device=d), torch.tensor(7, device=d),
        torch.tensor(numpy.array([3, 1, 2]), device=d), torch.from_numpy(numpy.array([3, 1, 2])).to(d),
        torch.randn(2, device=d).new_tensor([4, 5]),
    ],
    "computed": lambda d, x=(3, 1, 2): [
        (x := torch.tensor(x, device=d)).cumsum(0), x.diff(), x == 1, x.sum(), x.max(), x.argmax(),
        x.float().mean(), x.sort().values, *x.topk(2), torch.cat([x, x + 1]), torch.where(x > 1, x, 0),
        x / 2, x % 4, x & 1, 7 - x, x // 2, x.remainder(2),
    ],
    "viewed": lambda d: [
        (x := torch.arange(12, device=d).view(3, 4))[1], x[:, 2], x[1:, ::2], x.t()[0], x[-1, -1]
    ],
    "triangles": lambda d: [
        (ones := torch.ones(3, 3, dtype=torch.bool, device=d)).tril(), ones.triu(1).sum(-1),
        torch.full((3, 3), -1e9, device=d).triu(1) == 0, ones.tril().all(),
    ],
    "moved and cast": lambda d: [
        (x := torch.arange(3, device=d)).cpu(), x.to("cpu").to(d), x.to(torch.int32), x.half(), x.bool(),
        x.clone(), x.detach().float().requires_grad_(), torch.tensor([1.0], device=d).view(torch.int32),
    ],
    "not finite": lambda d: [
        torch.isnan(x := torch.tensor([1.0, float("inf"), float("nan")], device=d)), torch.isinf(x),
        torch.isfinite(x),
    ],
    "written in place": written_in_place,
    "inverted": inverted,
    "in inference mode": in_inference_mode,
    "on the default device": on_the_default_device,
    "packed sequences": packed_sequences,
    "selected": selected,
}  # fmt: skip


def run(name, device):
    return [[list(one.shape), one.tolist()] for one in BODIES[name](device)]


@pytest.mark.parametrize("name", BODIES)
def test_values_are_those_of_real_tensors(trace, name):
    traced = trace(run, name, "cuda")

    assert traced.value == run(name, "cpu")
    assert not traced.assumptions


def types_with_numbers():
    """Type promotion as torch.result_type has it: of a number's kind only where no tensor is of it."""
    half = torch.ones(2, dtype=torch.float16, device="cuda")
    scalar = torch.ones((), dtype=torch.int8, device="cuda")
    made = [half * 2.5, 2.5 * half, half + True, scalar * 2, scalar * 2.0, 1 - scalar]
    return [str(tensor.dtype)[6:] for tensor in (*made, torch.where(half > 0, half, 2.0))]


def large_masks():
    """A tensor of one value is known at any size."""
    ones = torch.ones(64, 4096, 4096, dtype=torch.bool, device="cuda")  # 1 GiB: not to be computed with
    numbers, expanded = torch.ones(4, MIB, device="cuda"), torch.ones((), device="cuda").expand(MIB, MIB)
    return [
        ones.all().item(), (~ones).any().item(), (ones & ones).all(dim=-1).all().item(),
        (ones.long() == 0).any().item(), ((1.0 - numbers) * -1e9 == 0).all().item(), numbers.sum().item(),
        numbers.sum(-1).tolist(), numbers.mean().item(), torch.zeros_like(numbers).max().item(),
        bool((expanded == 1).all()), len(numbers[numbers > 0]),
    ]  # fmt: skip


def with_a_hole():
    ones = torch.ones(2 * MIB, dtype=torch.bool, device="cuda")
    ones[3] = False
    return ones.all().item() in (True, False)


def resized():
    x = torch.arange(2, device="cuda")
    x.resize_(4)
    return len(x.tolist()) == 4


def partly_written():
    x = torch.empty(3, dtype=torch.long, device="cuda")
    x[torch.tensor([2, 0], device="cuda")] = torch.tensor([7, 7], device="cuda")
    return len(x.tolist()) == 3


def undecided():
    """The other operand decides nothing."""
    unknown = torch.randn(4, device="cuda") > 0
    yes = torch.ones(4, dtype=torch.bool, device="cuda")
    return not [(unknown & yes).all().item(), (~yes | unknown).any().item()][0]


@pytest.mark.parametrize("body", [with_a_hole, resized, partly_written, undecided])
def test_it_is_unknown(trace, body):
    traced = trace(body)

    assert traced.value is True
    assert len(traced.assumptions) == 1


def written_with_unknown(place):
    x, unknown = torch.zeros(3, device="cuda"), torch.randn(3, device="cuda")
    if place == "data":
        x.data = unknown
    {
        "add_": lambda: x.add_(unknown),
        "view": lambda: x[1:].copy_(unknown[1:]),
        "normal_": lambda: x.normal_(),
        "foreach": lambda: torch._foreach_add_([x], [unknown]),
        "out": lambda: torch.exp(unknown, out=x),
        "data": lambda: None,
    }[place]()
    return x.tolist()


@pytest.mark.parametrize("place", ["add_", "view", "normal_", "foreach", "out", "data"])
def test_a_write_of_unknown_values_makes_a_tensor_unknown(trace, place):
    traced = trace(written_with_unknown, place)

    assert traced.value == [1.0, 1.0, 1.0]
    assert len(traced.assumptions) == 1


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
    assert len(traced.assumptions) == 1


def decided():
    """One operand may decide, whatever the other is: a generation ends at its length, whatever was drawn."""
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


def finite():
    """A healthy run is."""
    x = torch.randn(3000, 3000, device="cuda")
    return [
        torch.isnan(x).any().item(), torch.isinf(x).any().item(), torch.isfinite(x).all().item(),
        torch.isnan(x).sum().item(), bool(torch.isnan(x.sum())), (~torch.isfinite(x)).any().item(),
    ]  # fmt: skip


def scaled(growth_interval, steps):
    """A scaler grows as it does where nothing overflows: here after the second and the fourth step."""
    model = torch.nn.Linear(4, 4, device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda", init_scale=2.0**10, growth_interval=growth_interval)
    for _ in range(steps):
        scaler.scale(model(torch.randn(2, 4, device="cuda")).sum()).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    return scaler.get_scale()


def step_counts(fused):
    parameter = torch.nn.Parameter(torch.randn(3, device="cuda"))
    optimizer = torch.optim.AdamW([parameter], fused=fused)
    average = torch.optim.swa_utils.AveragedModel(torch.nn.Linear(3, 3, device="cuda"))
    parameter.grad = torch.ones_like(parameter)
    for _ in range(3):
        optimizer.step()
        average.update_parameters(torch.nn.Linear(3, 3, device="cuda"))
    return [optimizer.state[parameter]["step"].item(), average.n_averaged.item()]


def too_large_sums():
    """131,072 ones in fp16, whose largest number is 65,504."""
    ones = torch.ones(2**17, 4, dtype=torch.float16, device="cuda")  # more are not computed one by one
    return [str(x.item()) for x in (ones.sum(0)[0], ones.float().sum(0)[0], ones.long().sum())]


def copied():
    """A deep copy shares within itself."""
    import copy

    shared = torch.arange(6, device="cuda")
    whole, part = copy.deepcopy([shared, shared[2:4]])
    return [
        part.tolist(), whole.data_ptr() + 16 == part.data_ptr(), whole.data_ptr() == shared.data_ptr()
    ]  # fmt: skip


KNOWN = [
    (types_with_numbers, [], 3 * ["float16"] + ["int8", "float32", "int8", "float16"]),
    (large_masks, [], [True, False, True, False, True, 4 * MIB, [MIB] * 4, 1.0, 0.0, True, 4 * MIB]),
    (decided, [], [True, False, [True] * 4, 0, True]),
    (finite, [], [False, False, True, 0, False, False]),
    (scaled, [2, 5], 2.0**12),
    (step_counts, [True], [3.0, 3]),
    (step_counts, [False], [3.0, 3]),
    (too_large_sums, [], ["inf", "131072.0", "524288"]),
    (copied, [], [[2, 3], True, False]),
]


@pytest.mark.parametrize(("body", "arguments", "value"), KNOWN)
def test_what_follows_from_the_program_is_known(trace, body, arguments, value):
    traced = trace(body, *arguments)

    assert traced.value == value
    assert not traced.assumptions
