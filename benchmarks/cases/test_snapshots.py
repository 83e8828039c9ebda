"""Steps whose allocator histories were recorded on real GPUs: attention, dense transformers up to 3.4B.

Repositories with the script that made their history, most of them of the course CS336. The scripts are
followed operator by operator; where a history begins after warm-up steps, so does the figure.
"""

from __future__ import annotations

import contextlib

import pytest
import torch

from .models.dense_transformer import DenseTransformer
from .models.own_transformer import OwnAdamW, OwnTransformer
from .models.own_transformer import cross_entropy as own_cross_entropy
from .models.own_transformer import softmax as own_softmax
from .models.plain_training import PlainAdamW, cross_entropy
from .models.zeroth_order import Client, ForwardEstimator
from .steps import Record, record_step, start_step

VOCAB = 10_000


def medium(context: int) -> DenseTransformer:
    return DenseTransformer(VOCAB, context, width=1024, layers=24, heads=16, hidden=4096)


def tokens(*size: int) -> torch.Tensor:
    return torch.randint(0, VOCAB, size, device="cuda")


def autocast(enabled: bool) -> torch.autocast:
    return torch.autocast("cuda", dtype=torch.bfloat16, enabled=enabled)


@pytest.mark.mem_budget(gpu="A100-80GB", metric="allocated")
@pytest.mark.parametrize(
    ("context", "mixed"),
    [
        pytest.param(128, False, id="snap-wedsonlin-medium-ctx128-inference"),
        pytest.param(512, True, id="snap-wedsonlin-medium-ctx512-inference"),
        pytest.param(1024, False, id="snap-wedsonlin-medium-ctx1024-inference"),
    ],
)
def test_inference(context: int, mixed: bool, record_property: Record) -> None:
    model = medium(context).to("cuda")
    _optimizer = PlainAdamW(model.parameters())
    warm_up, recorded = tokens(5, 4, context), tokens(1, 4, context)
    model.eval()
    with torch.inference_mode():
        for batch in warm_up:
            with autocast(mixed):
                model(batch)
        start_step()
        with autocast(mixed):
            model(recorded[0])
    record_step(record_property)


@pytest.mark.mem_budget(gpu="A100-80GB", metric="allocated")
@pytest.mark.parametrize(
    ("context", "mixed"),
    [
        pytest.param(128, False, id="snap-wedsonlin-medium-ctx128-training"),
        pytest.param(1024, True, id="snap-wedsonlin-medium-ctx1024-training"),
    ],
)
def test_training(context: int, mixed: bool, record_property: Record) -> None:
    model = medium(context).to("cuda")
    optimizer = PlainAdamW(model.parameters())
    warm_up, recorded = tokens(5, 4, context), tokens(1, 4, context)
    warm_up_targets, recorded_targets = tokens(5, 4, context), tokens(1, 4, context)
    for step in range(5):
        with autocast(mixed):
            output = model(warm_up[step])
            loss = cross_entropy(output, warm_up_targets[step])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    del output, loss
    optimizer.zero_grad(set_to_none=True)
    start_step()
    with autocast(mixed):
        output = model(recorded[0])
        loss = cross_entropy(output, recorded_targets[0])
    loss.backward()
    optimizer.step()
    record_step(record_property)


@pytest.mark.mem_budget(gpu="A100-80GB", metric="allocated")
@pytest.mark.parametrize("steps", [pytest.param(6, id="snap-magma27-small-b32-ctx256-fwdbwd")])
def test_forward_and_backward(steps: int, record_property: Record) -> None:
    model = DenseTransformer(VOCAB, 256, width=768, layers=12, heads=12, hidden=3072).to("cuda")
    data, target = tokens(32, 256), tokens(32, 256)
    for _ in range(steps):
        start_step()
        logits = model(data)
        loss = cross_entropy(logits, target)
        loss.backward()
    record_step(record_property)


@pytest.mark.mem_budget(gpu="A100-80GB", metric="allocated")
@pytest.mark.parametrize("steps", [pytest.param(5, id="snap-charan-small")])
def test_forward(steps: int) -> None:
    model = DenseTransformer(VOCAB, 512, width=768, layers=12, heads=12, hidden=3072).to("cuda")
    data = tokens(4, 512)
    _optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(steps):
        with torch.no_grad():
            model(data)


@pytest.mark.mem_budget(gpu="A100-80GB", metric="allocated")
@pytest.mark.parametrize("length", [pytest.param(4096, id="snap-silmont-attention-b8-s4096-d16")])
def test_attention(length: int) -> None:
    query, key, value = (torch.randn(8, length, 16, device="cuda", requires_grad=True) for _ in range(3))

    def attend() -> torch.Tensor:
        scores = torch.einsum("bqd,bkd->bqk", query, key)
        scores = scores / 16**0.5
        weights = own_softmax(scores)
        return torch.einsum("bqk,bkd->bqd", weights, value)

    output = attend()
    loss = output.sum()
    loss.backward()


@pytest.mark.mem_budget(gpu="H100-80GB", metric="allocated")
@pytest.mark.parametrize(
    ("context", "mixed", "trains"),
    [
        pytest.param(128, False, False, id="snap-kkaitlyn-2.7b-fwd128"),
        pytest.param(128, True, False, id="snap-kkaitlyn-2.7b-fwd128mixed"),
        pytest.param(128, False, True, id="snap-kkaitlyn-2.7b-full128"),
        pytest.param(256, False, True, id="snap-kkaitlyn-2.7b-full256"),
        pytest.param(512, False, True, id="snap-kkaitlyn-2.7b-full512"),
    ],
)
def test_3b(context: int, mixed: bool, trains: bool, record_property: Record) -> None:
    model = OwnTransformer(VOCAB, context, width=2560, layers=32, heads=32, hidden=10_240, device="cuda")
    model.to("cuda")
    optimizer = OwnAdamW(model.parameters())
    batch = torch.randint(0, VOCAB, (4, context)).to("cuda")
    start_step()
    with autocast(True) if mixed else contextlib.nullcontext():
        if not trains:
            _logits = model(batch)
        else:
            optimizer.zero_grad()
            logits = model(batch)
            loss = own_cross_entropy(logits, batch)
            loss.backward()
            optimizer.step()
    record_step(record_property)


@pytest.mark.mem_budget(gpu="A100-80GB", metric="allocated")
@pytest.mark.parametrize("rounds", [pytest.param(2, id="snap-decomfl-opt125m-zo")])
def test_zeroth_order(rounds: int) -> None:
    transformers = pytest.importorskip("transformers")
    model = transformers.OPTForCausalLM(transformers.OPTConfig()).to("cuda")  # of 125 million parameters
    estimator = ForwardEstimator(model)
    client = Client(model, estimator)
    seeds: list[int] = []
    gradients: list[torch.Tensor] = []
    with torch.no_grad():
        for seed in range(rounds):
            client.pull(seeds, gradients)
            gradients.append(client.local_update(torch.randint(50_272, (8, 31)), seed))
            seeds.append(seed)
