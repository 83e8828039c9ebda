"""What PyTorch offers beside layers: wrappers of modules, transforms of functions, low precision, layouts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .language_models import llama_model
from .training import UPDATES, adamw, backward, language_loss, on_cuda, tokens, trained


def _perceptron(width: int = 1024, layers: int = 6) -> nn.Sequential:
    parts = [
        nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        for _ in range(layers)
    ]
    return nn.Sequential(*parts)


@contextmanager
def _group_of_one() -> Iterator[None]:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511", "RANK": "0", "WORLD_SIZE": "1"}
    torch.distributed.init_process_group("nccl", device_id=torch.device("cuda", 0))
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()


def distributed_data_parallel(rows: int, bucket_view: bool) -> None:
    """DistributedDataParallel over a group of one process."""
    with _group_of_one():
        with on_cuda():
            inner, x = _perceptron(), torch.randn(rows, 1024)
        model = nn.parallel.DistributedDataParallel(inner, gradient_as_bucket_view=bucket_view)
        trained(model, lambda: model(x).square().mean())


def fully_sharded(size: str, length: int) -> None:
    """FSDP2 over a group of one process, a Llama in mixed precision."""
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    with _group_of_one():
        model: Any = llama_model(size, torch.float32)
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for layer in model.model.layers:
            fully_shard(layer, mp_policy=policy)
        fully_shard(model, mp_policy=policy)
        ids = tokens(2, length, 32_000)
        trained(model, language_loss(model, {"input_ids": ids, "labels": ids}))


def saved_on_host(rows: int) -> None:
    """Activations that lie on the host until backward."""
    with on_cuda():
        model, x = _perceptron(), torch.randn(rows, 1024)

    def loss() -> Tensor:
        with torch.autograd.graph.save_on_cpu(pin_memory=True):
            out: Tensor = model(x).square().mean()
        return out

    trained(model, loss)


def selectively_checkpointed(rows: int) -> None:
    """Checkpoints that keep what matrix products give."""
    from functools import partial

    from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

    kept = partial(create_selective_checkpoint_contexts, [torch.ops.aten.addmm.default])
    with on_cuda():
        model, x = _perceptron(), torch.randn(rows, 1024)

    def loss() -> Tensor:
        values = x
        for layer in model:
            values = checkpoint(layer, values, use_reentrant=False, context_fn=kept)
        return values.square().mean()

    trained(model, loss)


def gradients_by_sample(rows: int) -> None:
    """A gradient for each row, by ``vmap`` of ``grad``."""
    from torch.func import functional_call, grad, vmap

    with on_cuda():
        model, x = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10)), torch.randn(rows, 256)
        labels = torch.randint(0, 10, (rows,))
    parameters = {name: value.detach() for name, value in model.named_parameters()}

    def loss(parameters: Any, row: Tensor, label: Tensor) -> Tensor:
        return F.cross_entropy(functional_call(model, parameters, (row[None],)), label[None])

    for _ in range(UPDATES):
        found = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, x, labels)
        parameters = {name: value - 0.1 * found[name].mean(0) for name, value in parameters.items()}


def jacobians(width: int) -> None:
    """Jacobians forward and in reverse, and a Hessian."""
    from torch.func import hessian, jacfwd, jacrev

    with on_cuda():
        weight, x = torch.randn(width, width), torch.randn(width)

    def field(values: Tensor) -> Tensor:
        return torch.tanh(weight @ values)

    for _ in range(UPDATES):
        jacfwd(field)(x), jacrev(field)(x), hessian(lambda values: field(values).sum())(x)


def ragged(count: int) -> None:
    """Attention over sequences of several lengths in one nested tensor."""
    lengths = [100 + 37 * index % 400 for index in range(count)]
    with on_cuda(torch.bfloat16):
        made = nn.Linear(512, 3 * 512)
        rows = [torch.randn(length, 512) for length in lengths]

    def loss() -> Tensor:
        x = torch.nested.nested_tensor(rows, layout=torch.jagged)
        q, k, v = (part.unflatten(-1, [8, 64]).transpose(1, 2) for part in made(x).chunk(3, -1))
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).values().float().square().mean()

    trained(made, loss)


def flexible_attention(length: int) -> None:
    """FlexAttention, compiled, with a mask of blocks and a score that depends on the distance."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    with on_cuda(torch.bfloat16):
        x = [torch.randn(2, 8, length, 64, requires_grad=True) for _ in range(3)]
    mask = create_block_mask(lambda b, h, q, k: (q >= k) & (q - k < 512), None, None, length, length)
    run: Any = torch.compile(flex_attention)
    for _ in range(UPDATES):
        backward(run(*x, score_mod=lambda score, b, h, q, k: score + (k - q) * 0.01, block_mask=mask).sum())


def compiled_llama(length: int, mode: str) -> None:
    """A small Llama through ``torch.compile``, in the mode named."""
    model = llama_model("160m", torch.float32)
    run: Any = torch.compile(model, mode=mode)
    ids = tokens(4, length, 32_000)
    trained(model, lambda: run(input_ids=ids, labels=ids).loss, autocast=torch.bfloat16)


def updated_by(optimizer: str, **options: Any) -> None:
    """An optimizer of PyTorch on a perceptron, by name; it is given a closure."""
    with on_cuda():
        model, x = _perceptron(), torch.randn(512, 1024)
    make = getattr(torch.optim, optimizer)
    parameters = [p for p in model.parameters() if p.ndim == 2 or optimizer != "Muon"]
    updater = make(parameters, **options)

    def closure() -> Tensor:
        updater.zero_grad()
        loss: Tensor = model(x).square().mean()
        backward(loss)
        return loss

    for _ in range(UPDATES):
        updater.step(closure)


def averaged(rows: int) -> None:
    """A moving average of the parameters, by ``AveragedModel``."""
    with on_cuda():
        model, x = _perceptron(), torch.randn(rows, 1024)
    average, optimizer = (
        torch.optim.swa_utils.AveragedModel(model, use_buffers=True),
        adamw(model.parameters()),
    )
    for _ in range(UPDATES):
        backward(model(x).square().mean())
        optimizer.step()
        optimizer.zero_grad()
        average.update_parameters(model)


def sparse_rows(words: int) -> None:
    """Sparse gradients of an embedding, and SparseAdam."""
    with on_cuda():
        model, ids = nn.Embedding(words, 256, sparse=True), torch.randint(0, words, (4096,))
    trained(model, lambda: model(ids).square().mean(), lambda p: torch.optim.SparseAdam(list(p)))


def reparametrized(rows: int) -> None:
    """Weights with a norm of their own, and with a bounded spectrum."""
    from torch.nn.utils.parametrizations import spectral_norm, weight_norm

    with on_cuda():
        model = nn.Sequential(
            weight_norm(nn.Linear(1024, 2048)), nn.ReLU(), spectral_norm(nn.Linear(2048, 512))
        )
        x = torch.randn(rows, 1024)
    trained(model, lambda: model(x).square().mean())


def resampled(batch: int, size: int) -> None:
    """Images warped by a grid, resized, shuffled and normalised by groups."""
    with on_cuda():
        model = nn.Sequential(
            nn.Conv2d(3, 64, 1), nn.GroupNorm(8, 64), nn.PixelShuffle(2), nn.InstanceNorm2d(16)
        )
        images, grid = torch.randn(batch, 3, size, size), torch.rand(batch, size, size, 2) * 2 - 1

    def loss() -> Tensor:
        warped = F.grid_sample(images, grid, align_corners=False)
        smaller = F.interpolate(warped, scale_factor=0.5, mode="bicubic", antialias=True)
        return F.interpolate(model(smaller), size=(size, size), mode="bilinear").square().mean()

    trained(model, loss)


def eight_bits(rows: int) -> None:
    """Matrix products of eight bits: scaled float8, and integers."""
    with on_cuda():
        a, b = torch.randn(rows, 1024), torch.randn(2048, 1024)
    for _ in range(UPDATES):
        one = torch.ones((), device="cuda")
        low = torch.float8_e4m3fn
        torch._scaled_mm(a.to(low), b.to(low).t(), one, one, out_dtype=torch.bfloat16)
        torch._int_mm(a.to(torch.int8), b.to(torch.int8).t())


def recurrent_gates(batch: int, length: int) -> None:
    """A GRU over packed sequences of several lengths."""
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

    with on_cuda():
        model, x = nn.GRU(128, 256, 2, batch_first=True, dropout=0.1), torch.randn(batch, length, 128)
    lengths = torch.tensor([length - index for index in range(batch)])

    def loss() -> Tensor:
        packed = pack_padded_sequence(x, lengths, batch_first=True)
        return pad_packed_sequence(model(packed)[0], batch_first=True)[0].square().mean()

    trained(model, loss)
