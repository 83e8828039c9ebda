"""Small steps and odd ones: single layers, odd sizes, recurrent nets, streams, indices, freed caches."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint_sequential

from .training import UPDATES, adamw, backward, on_cuda, trained


def one_mebibyte() -> None:
    """One tensor of exactly 1 MiB, twice."""
    for _ in range(UPDATES):
        torch.empty(2**20, dtype=torch.uint8, device="cuda")


def perceptron(widths: Sequence[int], rows: int) -> None:
    """Linear layers, batch norm and dropout, of sizes that no kernel likes; float32."""
    layers: list[nn.Module] = []
    with on_cuda():
        for before, after in itertools.pairwise(widths):
            layers += [nn.Linear(before, after), nn.BatchNorm1d(after), nn.ReLU(), nn.Dropout(0.1)]
        model, x = nn.Sequential(*layers), torch.randn(rows, widths[0])
    trained(model, lambda: model(x).square().mean(), torch.optim.Adam)


def recurrent(batch: int, length: int) -> None:
    """Two layers of LSTM in both directions with dropout between, then a head."""
    with on_cuda():
        embedding, layer = nn.Embedding(10_000, 256), nn.LSTM(256, 512, 2, dropout=0.2, bidirectional=True)
        head, ids = nn.Linear(1024, 10_000), torch.randint(0, 10_000, (length, batch))
    model = nn.ModuleList([embedding, layer, head])

    def loss() -> Tensor:
        return F.cross_entropy(head(layer(embedding(ids))[0]).flatten(0, 1), ids.flatten())

    trained(model, loss)


def checkpointed_sequence(layers: int, segments: int, rows: int) -> None:
    """Linear layers in segments that are computed again in backward, in float16 with a scaler."""
    with on_cuda():
        model = nn.Sequential(*(nn.Sequential(nn.Linear(2048, 2048), nn.GELU()) for _ in range(layers)))
        x = torch.randn(rows, 2048, requires_grad=True)

    def loss() -> Tensor:
        output: Tensor = checkpoint_sequential(model, segments, x, use_reentrant=False)
        return output.square().mean()

    trained(model, loss, autocast=torch.float16)


def tables(rows: int) -> None:
    """Embeddings and bags of them, sorting, indices, scans."""
    with on_cuda():
        words, bags = nn.Embedding(100_000, 128), nn.EmbeddingBag(50_000, 128, mode="sum")
        ids = torch.randint(0, 50_000, (rows, 16))
    model = nn.ModuleList([words, bags])

    def loss() -> Tensor:
        x = words(ids).mean(1) + bags(ids)
        values, order = x.sort(dim=0)
        summed = values.cumsum(0).index_select(0, order[:, 0])
        loss: Tensor = summed.std() + x.topk(8, dim=-1).values.sum()
        return loss

    trained(model, loss)


def on_side_streams(rows: int) -> None:
    """Batches copied from pinned memory on a stream of their own, while the step before still runs."""
    with on_cuda():
        model = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024))
    optimizer, side = adamw(model.parameters()), torch.cuda.Stream()
    on_host = torch.randn(rows, 1024).pin_memory()
    for _ in range(UPDATES):
        with torch.cuda.stream(side):
            x = on_host.to("cuda", non_blocking=True)
        torch.cuda.current_stream().wait_stream(side)
        x.record_stream(torch.cuda.current_stream())
        backward(model(x).square().mean())
        optimizer.step()
        optimizer.zero_grad()


def on_a_stream_that_is_behind() -> None:
    """A block that a sleeping stream uses is freed and wanted again: it is not to be had before it wakes."""
    for _ in range(UPDATES):
        torch.cuda.synchronize()
        side, x = torch.cuda.Stream(), torch.empty(64 * 2**20, dtype=torch.uint8, device="cuda")
        with torch.cuda.stream(side):
            torch.cuda._sleep(2 * 10**9)  # cycles: about a second
        x.record_stream(side)
        del x
        torch.empty(64 * 2**20, dtype=torch.uint8, device="cuda")


def in_a_graph(rows: int) -> None:
    """Forward and backward captured in a CUDA graph, played twice with an update in between."""
    with on_cuda():
        model = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024))
        x = torch.randn(rows, 1024)
    optimizer, side = adamw(model.parameters()), torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        backward(model(x).square().mean())
    torch.cuda.current_stream().wait_stream(side)
    optimizer.zero_grad()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        backward(model(x).square().mean())
    for _ in range(UPDATES):
        graph.replay()
        optimizer.step()


def compiled(rows: int) -> None:
    """A residual stack through ``torch.compile``, in float32 with bfloat16 autocast."""
    with on_cuda():
        layers = [nn.Sequential(nn.LayerNorm(1024), nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024))
                  for _ in range(4)]  # fmt: skip
        model, x = nn.ModuleList(layers), torch.randn(rows, 1024)

    def stack(values: Tensor) -> Tensor:
        for layer in layers:
            values = values + F.dropout(layer(values), 0.1)
        return values.square().mean()

    run = torch.compile(stack)
    trained(model, lambda: run(x), autocast=torch.bfloat16)


def varying_lengths(freed: bool = False) -> None:
    """A stack of linear layers over sequences that grow, shrink and grow: segments of many sizes."""
    with on_cuda():
        layers = [nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024)) for _ in range(6)]
        model = nn.Sequential(*layers)
    optimizer = adamw(model.parameters())
    for length in (300, 1111, 700, 2048, 513, 3000, 999, 3001):
        x = torch.randn(4, length, 1024, device="cuda")
        backward(model(x).square().mean())
        optimizer.step()
        optimizer.zero_grad()
        if freed:
            torch.cuda.empty_cache()
