"""Seeds, generators and random states of the virtual device."""

import io

import pytest
import torch
from torch import nn


def seeds():
    torch.manual_seed(0)
    torch.cuda.manual_seed(0)
    torch.cuda.manual_seed_all(0)
    state = torch.cuda.get_rng_state()
    torch.cuda.set_rng_state(state)
    torch.cuda.set_rng_state_all(torch.cuda.get_rng_state_all())
    torch.set_rng_state(torch.get_rng_state())
    with torch.random.fork_rng():
        torch.randn(3, device="cuda")
    with torch.random.fork_rng(devices=[0]):
        torch.manual_seed(1)
    with torch.random.fork_rng(devices=range(torch.cuda.device_count()), device_type="cuda"):
        torch.manual_seed(2)
    return list(state.shape), str(state.dtype), torch.cuda.initial_seed(), len(torch.cuda.default_generators)


def test_states_are_taken_and_put_back(trace):
    assert trace(seeds).value == [[16], "torch.uint8", 0, 1]


def default_generators():
    generator = torch.cuda.default_generators[torch.cuda.current_device()]
    torch.cuda.manual_seed(7)
    state = generator.get_state()
    kept = [list(state.shape), torch.equal(state, torch.cuda.get_rng_state())]
    torch.cuda.manual_seed(8)
    generator.set_offset(12)
    other = generator.clone_state()
    seen = [generator.initial_seed(), generator.get_offset(), other.initial_seed(), other.get_offset()]
    generator.set_state(state)
    return [*kept, *seen, generator.initial_seed(), generator.get_offset(), torch.cuda.initial_seed()]


def test_the_default_generator_of_cuda_keeps_seed_and_offset(trace):
    assert trace(default_generators).value == [[16], True, 8, 12, 8, 12, 7, 0, 7]


def wrong_state(state):
    try:
        torch.cuda.default_generators[0].set_state(eval(state, {"torch": torch}))
    except (TypeError, RuntimeError) as error:
        return str(error)


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("torch.zeros(16)", "RNG state must be a torch.ByteTensor"),
        ("torch.zeros(16, dtype=torch.uint8, device='cuda')", "RNG state must be a torch.ByteTensor"),
        ("torch.get_rng_state()", "RNG state is wrong size"),
    ],
)
def test_a_state_of_another_kind_is_refused_as_on_cuda(trace, state, said):
    assert trace(wrong_state, state).value == said


def states_of_a_file():
    """What trainers do to go on where they were."""
    torch.cuda.manual_seed(7)
    states = {"cpu": torch.get_rng_state(), "cuda": torch.cuda.get_rng_state_all()}
    file = io.BytesIO()
    torch.save(states, file)
    torch.cuda.manual_seed(8)
    file.seek(0)
    loaded = torch.load(file, weights_only=True)
    torch.set_rng_state(loaded["cpu"])
    torch.random.set_rng_state(loaded["cpu"])
    torch.Generator().set_state(loaded["cpu"])
    torch.cuda.set_rng_state_all(loaded["cuda"])
    return torch.cuda.initial_seed()


def test_states_of_a_file_are_put_back(trace):
    traced = trace(states_of_a_file)

    assert (traced.value, traced.report.assumptions) == (7, ())


def generators(device):
    generator = torch.Generator(device=device)
    same = generator.manual_seed(3)
    generator.set_state(generator.get_state())
    generator.initial_seed()
    generator.seed()
    return [
        str(generator.device), same is generator, isinstance(generator, torch.Generator),
        isinstance(torch.default_generator, torch.Generator), isinstance(device, torch.Generator),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("device", "name"), [("cuda", "cuda:0"), (0, "cuda:0"), ("cuda:0", "cuda:0"), ("cpu", "cpu")]
)
def test_generators_name_their_device(trace, device, name):
    assert trace(generators, device).value == [name, True, True, True, False]


def draws(device):
    generator = torch.Generator(device).manual_seed(0)
    options = {"device": device, "generator": generator}
    x = torch.empty(3, device=device)
    drawn = [
        torch.rand(3, **options), torch.randn(3, **options), torch.randint(5, (3,), **options),
        torch.randint(1, 5, (3,), **options), torch.randperm(3, **options),
        torch.normal(0.0, 1.0, (3,), **options),
        torch.multinomial(torch.ones(4, device=device), 3, generator=generator),
        torch.bernoulli(torch.ones(3, device=device), generator=generator), x.normal_(generator=generator),
        x.uniform_(generator=generator), x.exponential_(generator=generator), x.random_(generator=generator),
        nn.init.normal_(x, generator=generator), nn.init.trunc_normal_(x, generator=generator),
        nn.init.kaiming_uniform_(torch.empty(3, 3, device=device), generator=generator)[0],
    ]  # fmt: skip
    return [list(one.shape) for one in drawn], {one.device.type for one in drawn} == {device}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_every_draw_takes_a_generator(trace, device):
    assert trace(draws, device).value == [[[3]] * 15, True]


def dropout_and_checkpoint():
    block = nn.Sequential(nn.Linear(8, 8, device="cuda"), nn.Dropout(0.5))
    x = torch.randn(2, 8, device="cuda", requires_grad=True)
    for use_reentrant in (True, False):
        output = torch.utils.checkpoint.checkpoint(
            block, x, use_reentrant=use_reentrant, preserve_rng_state=True
        )
        output.sum().backward()
    return list(x.grad.shape)


def test_a_checkpoint_preserves_random_states(trace):
    assert trace(dropout_and_checkpoint).value == [2, 8]


def shuffled():
    data = torch.utils.data.TensorDataset(torch.arange(5))
    generator = torch.Generator().manual_seed(0)
    loader = torch.utils.data.DataLoader(data, batch_size=2, shuffle=True, generator=generator)
    first, second = torch.utils.data.random_split(data, [3, 2], generator=generator)
    return [batch.tolist() for (batch,) in loader], len(first), second[0][0].item()


def test_nothing_is_shuffled_and_that_is_listed(trace):
    traced = trace(shuffled)

    assert traced.value == [[[0, 1], [2, 3], [4]], 3, 3]
    assert all("taken to be 0 to 4" in text for text in traced.report.assumptions)
    assert len(traced.report.assumptions) == 2
