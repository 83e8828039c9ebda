"""Mechanisms of PyTorch around a step: graphs, derivatives forward, hooks, checkpoints, shards, copies."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from .features import _group_of_one
from .research_vision import perceptron, transformer
from .training import UPDATES, adamw, backward, on_cuda, trained


def graphed_callables(rows: int) -> None:
    """Two parts of a model as graphs of their own, forward and backward."""
    with on_cuda():
        parts = perceptron(1024, 4096, 1024), perceptron(1024, 4096, 1024)
        x = torch.randn(rows, 1024)
    samples = (x,), (torch.randn_like(x).requires_grad_(),)
    graphed: Any = torch.cuda.make_graphed_callables(parts, samples)
    first, second = graphed
    trained(nn.ModuleList(parts), lambda: second(F.gelu(first(x))).square().mean())


def tangents(rows: int, directions: int) -> None:
    """Gradients by directions forward: dual numbers, and many of them by ``vmap`` of ``jvp``."""
    from torch.autograd import forward_ad
    from torch.func import functional_call, jvp, vmap

    with on_cuda():
        model, x = perceptron(512, 1024, 1024, 64), torch.randn(rows, 512)
    weights = {name: value.detach() for name, value in model.named_parameters()}
    for _ in range(UPDATES):
        way = {name: torch.randn_like(value) for name, value in weights.items()}
        with forward_ad.dual_level(), torch.no_grad():
            dual = {name: forward_ad.make_dual(value, way[name]) for name, value in weights.items()}
            slope = forward_ad.unpack_dual(functional_call(model, dual, (x,)).square().mean()).tangent
        weights = {name: value - 1e-3 * slope * way[name] for name, value in weights.items()}
        vmap(lambda t: jvp(model, (x,), (t,))[1])(torch.randn(directions, rows, 512, device="cuda"))


def ensembled(members: int, rows: int) -> None:
    """An ensemble in one: stacked weights, ``vmap`` with a dropout of its own for each member."""
    from torch.func import functional_call, stack_module_state, vmap

    with on_cuda():
        models = [
            nn.Sequential(perceptron(512, 1024), nn.Dropout(0.1), nn.Linear(1024, 10)) for _ in range(members)
        ]
        x, labels = torch.randn(rows, 512), torch.randint(0, 10, (rows,))
    weights, buffers = stack_module_state(models)

    def error(weights: Any, buffers: Any) -> Tensor:
        return F.cross_entropy(functional_call(models[0], (weights, buffers), (x,)), labels)

    losses = vmap(error, randomness="different")
    optimizer = adamw(weights.values())
    for _ in range(UPDATES):
        backward(losses(weights, buffers).sum())
        optimizer.step()
        optimizer.zero_grad()


def hooked(rows: int) -> None:
    """Hooks that keep what layers give and the gradients of it; gradients that a hook makes half as wide."""
    with on_cuda():
        model, x = perceptron(1024, 4096, 4096, 1024), torch.randn(rows, 1024)
    kept: dict[str, Tensor] = {}

    def keep(name: str) -> Any:
        return lambda _module, _inputs, output: kept.__setitem__(name, output.detach().half())

    def keep_gradient(name: str) -> Any:
        return lambda _module, _before, after: kept.__setitem__(f"{name}.gradient", after[0])

    for name, layer in model.named_children():
        layer.register_forward_hook(keep(name))
        layer.register_full_backward_hook(keep_gradient(name))
    for p in model.parameters():
        p.register_hook(lambda gradient: gradient.half().float())
    trained(model, lambda: model(x).square().mean(), accumulate=2)


def packed_activations(rows: int) -> None:
    """Activations in eight bits between forward and backward, and nested checkpoints of both kinds."""
    with on_cuda():
        model, x = (
            nn.ModuleList([perceptron(1024, 4096, 1024) for _ in range(6)]),
            torch.randn(rows, 1024, requires_grad=True),
        )

    def packed(t: Tensor) -> Any:
        if (
            t.numel() < 2**20
            or isinstance(t, nn.Parameter)
            or not t.is_floating_point()
            or not t.is_contiguous()
        ):
            return t
        scale = t.abs().amax() / 127
        return (t / scale).round().to(torch.int8), scale

    def unpacked(kept: Any) -> Tensor:
        return kept if isinstance(kept, Tensor) else kept[0].float() * kept[1]

    def pair(values: Tensor, begin: int) -> Tensor:
        for layer in model[begin : begin + 2]:
            values = values + checkpoint(layer, values, use_reentrant=False)
        return values

    def loss() -> Tensor:
        with torch.autograd.graph.saved_tensors_hooks(packed, unpacked):
            values = model[1](model[0](x))
        values = checkpoint(pair, values, 2, use_reentrant=True)
        error: Tensor = checkpoint(pair, values, 4, use_reentrant=False).square().mean()
        return error

    trained(model, loss)


def micro_batches(count: int, rows: int) -> None:
    """A pipeline's schedule on one card: forwards of micro-batches ahead of their backwards, by stages."""
    with on_cuda():
        stages, x = [perceptron(1024, 4096, 4096, 1024) for _ in range(3)], torch.randn(count, rows, 1024)
    optimizer = adamw(p for stage in stages for p in stage.parameters())
    for _ in range(UPDATES):
        waiting: list[list[tuple[Tensor, Tensor]]] = []
        for index in range(count + len(stages)):
            if index < count:
                passed, value = [], x[index]
                for stage in stages:
                    before = value.detach().requires_grad_()
                    value = stage(before)
                    passed.append((before, value))
                waiting.append(passed)
            if index >= len(stages):
                first = waiting.pop(0)
                gradient = first[-1][1].detach() / count
                for before, value in reversed(first):
                    value.backward(gradient)
                    gradient = before.grad  # type: ignore[assignment]
        optimizer.step()
        optimizer.zero_grad()


def sharded_variant(kind: str) -> None:
    """FSDP2 over a group of one: kept gathered after forward, or parameters that lie on the host."""
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard

    options: Any = {
        "kept": {"reshard_after_forward": False, "mp_policy": MixedPrecisionPolicy(torch.bfloat16)},
        "on-host": {"offload_policy": CPUOffloadPolicy()},
    }[kind]
    with _group_of_one():
        with on_cuda():
            model, x = transformer(1024, 6, 16), torch.randn(8, 512, 1024)
        for layer in model.layers:  # type: ignore[union-attr]
            fully_shard(layer, **options)
        fully_shard(model, **options)
        trained(model, lambda: model(x).float().square().mean(), clip=kind == "kept")


def tensor_parallel(batch: int) -> None:
    """Distributed tensors: a feed-forward block split by columns and rows, its norm by sequence."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import parallel

    with _group_of_one():
        with on_cuda():
            model, x = (
                nn.Sequential(nn.LayerNorm(1024), perceptron(1024, 4096, 1024)),
                torch.randn(batch, 512, 1024),
            )
        plan: dict[str, Any] = {
            "0": parallel.SequenceParallel(),
            "1.0": parallel.ColwiseParallel(input_layouts=torch.distributed.tensor.Shard(1)),
            "1.2": parallel.RowwiseParallel(),
        }
        parallel.parallelize_module(model, init_device_mesh("cuda", (1,)), plan)
        trained(model, lambda: model(x).square().mean())


def biased_attention(batch: int, length: int) -> None:
    """Attention with a bias of distances, then over padded sentences, in groups of heads."""
    with on_cuda(torch.bfloat16):
        made, other, out = nn.Linear(1024, 1536), nn.Linear(1024, 512), nn.Linear(1024, 1024)
        x, memory = torch.randn(batch, length, 1024), torch.randn(batch, 300, 1024)
        slopes = 2.0 ** -torch.arange(1, 17)
    padding = torch.arange(300, device="cuda") < torch.arange(batch, device="cuda")[:, None] * 20 + 100

    def loss() -> Tensor:
        q, k, v = (t.unflatten(-1, (-1, 64)).transpose(1, 2) for t in made(x).split([1024, 256, 256], -1))
        places = torch.arange(length, device="cuda")
        bias = (places - places[:, None]) * slopes[:, None, None]
        bias = bias.masked_fill(places > places[:, None], float("-inf")).to(q.dtype)
        y = F.scaled_dot_product_attention(q, k, v, bias[None], enable_gqa=True)
        k, v = (t.unflatten(-1, (-1, 64)).transpose(1, 2) for t in other(memory).chunk(2, -1))
        y = F.scaled_dot_product_attention(y, k, v, padding[:, None, None], 0.1, enable_gqa=True)
        error: Tensor = out(y.transpose(1, 2).flatten(2)).float().square().mean()
        return error

    trained(nn.ModuleList([made, other, out]), loss)


def contrasted(pairs: int) -> None:
    """Contrast over thousands of pairs in chunks whose representations are made twice (cached gradients)."""
    with on_cuda():
        towers, data = (
            nn.ModuleList([perceptron(1024, 4096, 512) for _ in range(2)]),
            torch.randn(2, pairs, 1024),
        )

    optimizer = adamw(towers.parameters())
    for _ in range(UPDATES):
        with torch.no_grad():
            seen = [
                torch.cat([tower(part) for part in rows.split(1024)])
                for tower, rows in zip(towers, data, strict=True)
            ]
        left, right = (F.normalize(t.requires_grad_(), dim=1) for t in seen)
        scores, same = left @ right.t() / 0.05, torch.arange(pairs, device="cuda")
        backward(F.cross_entropy(scores, same) + F.cross_entropy(scores.t(), same))
        for tower, rows, kept in zip(towers, data, seen, strict=True):
            for part, gradient in zip(rows.split(1024), kept.grad.split(1024), strict=True):  # type: ignore[union-attr]
                backward((tower(part) * gradient).sum())
        optimizer.step()
        optimizer.zero_grad()


def mined_triplets(batch: int) -> None:
    """Triplets mined from all distances of a batch, with a focal loss and a centre for each class."""
    with on_cuda():
        model, centres = perceptron(512, 2048, 256), nn.Embedding(1000, 256)
        x, labels, head = torch.randn(batch, 512), torch.arange(batch) // 8, nn.Linear(256, 1000)

    def loss() -> Tensor:
        found = F.normalize(model(x), dim=1)
        apart = torch.cdist(found, found)
        same = labels[:, None] == labels
        far = apart.masked_fill(~same, -1.0).amax(1)
        near = apart.masked_fill(same, 1e9).amin(1)
        cross = F.cross_entropy(head(found), labels % 1000, reduction="none", label_smoothing=0.1)
        focal = ((1 - torch.exp(-cross)).square() * cross).mean()
        apart_from_centres: Tensor = (found - centres(labels % 1000)).square().sum(1).mean()
        return F.relu(far - near + 0.2).mean() + focal + 1e-3 * apart_from_centres

    trained(nn.ModuleList([model, centres, head]), loss)


def _clicks(rows: int, tables: int) -> Any:
    bags = [nn.EmbeddingBag(200_000, 64, mode="mean", sparse=True) for _ in range(tables)]
    return nn.ModuleList(bags), torch.randint(0, 200_000, (tables, rows * 4)), torch.arange(0, rows * 4, 4)


def click_rates(rows: int, tables: int) -> None:
    """Recommendation: bags of sparse embeddings, their products pairwise, two optimizers, a DataLoader."""
    with on_cuda():
        (bags, ids, offsets), dense = _clicks(rows, tables), perceptron(13, 512, 64)
        top = perceptron(64 + (tables + 1) * tables // 2, 1024, 1)
    optimizers = (
        torch.optim.Adagrad(bags.parameters(), lr=0.01),
        adamw([*dense.parameters(), *top.parameters()]),
    )
    loaded = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(torch.randn(2 * rows, 13), torch.rand(2 * rows, 1)),
        rows,
        pin_memory=True,
    )
    above = torch.triu_indices(tables + 1, tables + 1, 1, device="cuda")
    for numbers, clicked in loaded:
        values = dense(numbers.to("cuda", non_blocking=True))
        seen = torch.stack([values, *(bag(i, offsets) for bag, i in zip(bags, ids, strict=True))], 1)
        products = torch.bmm(seen, seen.mT)[:, above[0], above[1]]
        score = top(torch.cat([values, products], 1))
        backward(F.binary_cross_entropy_with_logits(score, clicked.to("cuda", non_blocking=True)))
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
