"""Training steps as research code writes them: images, generation, self-supervision, fields."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .training import UPDATES, adamw, backward, on_cuda, trained


def transformer(width: int, layers: int, heads: int = 8) -> nn.Module:
    """Layers of PyTorch's encoder, normalised first, without dropout."""
    layer = nn.TransformerEncoderLayer(
        width, heads, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
    )
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)


def perceptron(*widths: int) -> nn.Sequential:
    """Linear layers with SiLU between."""
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(widths):
        layers += [nn.Linear(before, after), nn.SiLU()]
    return nn.Sequential(*layers[:-1])


@torch.no_grad()
def followed(average: Iterable[Tensor], values: Iterable[Tensor], rate: float) -> None:
    """Move ``average`` towards ``values``, tensor by tensor."""
    for mean, value in zip(average, values, strict=True):
        mean.mul_(1 - rate).add_(value, alpha=rate)


def masked_autoencoder(batch: int, patches: int) -> None:
    """A masked autoencoder: a quarter of the patches is encoded, all of them decoded."""
    with on_cuda():
        encoder, decoder, mask = transformer(768, 6, 12), transformer(512, 2), nn.Parameter(torch.zeros(512))
        into, between, head = nn.Linear(768, 768), nn.Linear(768, 512), nn.Linear(512, 768)
        images, places = torch.randn(batch, patches, 768), torch.randn(1, patches, 768)
    model = nn.ModuleList([encoder, decoder, into, between, head, nn.ParameterList([mask])])
    kept = patches // 4

    def loss() -> Tensor:
        order = torch.rand(batch, patches, device="cuda").argsort(1)
        back = order.argsort(1)[..., None]
        x = into(images) + places
        x = between(encoder(x.gather(1, order[:, :kept, None].expand(-1, -1, 768))))
        x = torch.cat([x, mask.expand(batch, patches - kept, -1)], 1).gather(1, back.expand(-1, -1, 512))
        errors = (head(decoder(x)) - images).square().mean(-1)
        hidden = torch.ones_like(errors)
        hidden.scatter_(1, order[:, :kept], 0.0)
        mean: Tensor = (errors * hidden).sum() / hidden.sum()
        return mean

    trained(model, loss, autocast=torch.bfloat16)


def matched_detection(batch: int, queries: int, objects: int) -> None:
    """Detection by queries: each object is matched to one of them on the host, by the Hungarian method."""
    from scipy.optimize import linear_sum_assignment

    with on_cuda():
        encoder, queried = transformer(256, 3), nn.Parameter(torch.randn(queries, 256))
        decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(256, 8, 1024, batch_first=True), 3)
        head, image = nn.Linear(256, 92 + 4), torch.randn(batch, 1024, 256)
        classes, boxes = torch.randint(0, 91, (batch, objects)), torch.rand(batch, objects, 4)
    model = nn.ModuleList([encoder, decoder, head, nn.ParameterList([queried])])

    def loss() -> Tensor:
        out = head(decoder(queried.expand(batch, -1, -1), encoder(image)))
        scores, found = out[..., :92], out[..., 92:].sigmoid()
        with torch.no_grad():
            price = torch.cdist(found, boxes, p=1) - scores.softmax(-1).gather(
                2, classes[:, None].expand(-1, queries, -1)
            )
            pairs = [linear_sum_assignment(part) for part in price.nan_to_num().cpu().numpy()]
        rows = torch.stack([torch.as_tensor(pair[0]) for pair in pairs]).cuda()
        columns = torch.stack([torch.as_tensor(pair[1]) for pair in pairs]).cuda()
        labels = torch.full((batch, queries), 91, device="cuda")
        labels.scatter_(1, rows, classes.gather(1, columns))
        four = (-1, -1, 4)
        near, wanted = (t.gather(1, i[..., None].expand(four)) for t, i in ((found, rows), (boxes, columns)))
        return F.cross_entropy(scores.transpose(1, 2), labels) + 5 * F.l1_loss(near, wanted)

    trained(model, loss, clip=True)


def radiance_field(rays: int, samples: int) -> None:
    """A radiance field: points along rays, their frequencies, and the colours composed along each ray."""
    with on_cuda():
        model, origin = perceptron(63, 256, 256, 256, 256, 4), torch.zeros(rays, 1, 3)
        way, colours, scales = torch.randn(rays, 1, 3), torch.rand(rays, 3), 2.0 ** torch.arange(10)

    def loss() -> Tensor:
        depth = torch.linspace(2, 6, samples, device="cuda") + torch.rand(rays, samples, device="cuda") * 0.1
        points = origin + way * depth[..., None]
        waves = (points[..., None] * scales).flatten(-2)
        out = model(torch.cat([points, waves.sin(), waves.cos()], -1))
        opacity = 1 - torch.exp(-F.relu(out[..., 3]) * 0.1)
        passed = torch.cumprod(torch.cat([torch.ones_like(opacity[:, :1]), 1 - opacity + 1e-10], 1), 1)
        weights = opacity * passed[:, :-1]
        return F.mse_loss((weights[..., None] * out[..., :3].sigmoid()).sum(1), colours)

    trained(model, loss)


def denoised_tokens(batch: int, length: int) -> None:
    """Denoising diffusion by a transformer whose norms a time modulates, with an average of its weights."""
    with on_cuda():
        model = nn.ModuleDict({
            "body": transformer(512, 8), "time": perceptron(256, 512, 1024), "out": nn.Linear(512, 512)
        })  # fmt: skip
        clean, betas = torch.randn(batch, length, 512), torch.linspace(1e-4, 0.02, 1000)
    average, optimizer, kept = copy.deepcopy(model), adamw(model.parameters()), (1 - betas).cumprod(0)
    rates = torch.exp(-torch.arange(128, device="cuda") / 14)
    for _ in range(UPDATES):
        times, noise = torch.randint(0, 1000, (batch,), device="cuda"), torch.randn_like(clean)
        share = kept[times, None, None]
        with torch.autocast("cuda", dtype=torch.bfloat16):
            angles = times[:, None] * rates
            scale, shift = model["time"](torch.cat([angles.sin(), angles.cos()], -1))[:, None].chunk(2, -1)
            noisy = share.sqrt() * clean + (1 - share).sqrt() * noise
            guess = model["out"](model["body"](noisy * (1 + scale) + shift))
            loss = F.mse_loss(guess.float(), noise)
        backward(loss)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        followed(average.parameters(), model.parameters(), 1e-3)


def quantized(rows: int, codes: int) -> None:
    """A quantized autoencoder: nearest codes, gradients straight through, codes as moving averages."""
    with on_cuda():
        encoder, decoder = perceptron(768, 1024, 256), perceptron(256, 1024, 768)
        x, book, counts = torch.randn(rows, 768), torch.randn(codes, 256), torch.ones(codes)
    sums = book.clone()

    def loss() -> Tensor:
        found = encoder(x)
        nearest = torch.cdist(found.detach(), book).argmin(1)
        chosen = book[nearest]
        with torch.no_grad():
            hot = F.one_hot(nearest, codes).to(found)
            followed([counts, sums], [hot.sum(0), hot.t() @ found], 0.01)
            book.copy_(sums / counts.clamp(min=1e-5)[:, None])
        straight = found + (chosen - found).detach()
        return F.mse_loss(decoder(straight), x) + 0.25 * F.mse_loss(found, chosen.detach())

    trained(nn.ModuleList([encoder, decoder]), loss)


def momentum_contrast(batch: int, queue: int) -> None:
    """Contrast with a queue of keys that a slowly following encoder made."""
    with on_cuda():
        model, keys, images = (
            perceptron(3072, 4096, 2048, 256),
            torch.randn(256, queue),
            torch.randn(batch, 3072),
        )
    slow, place = copy.deepcopy(model).requires_grad_(False), 0
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9, weight_decay=1e-4)
    for _ in range(UPDATES):
        views = [images + 0.1 * torch.randn_like(images) for _ in range(2)]
        query = F.normalize(model(views[0]), dim=1)
        with torch.no_grad():
            followed(slow.parameters(), model.parameters(), 1e-3)
            key = F.normalize(slow(views[1][torch.randperm(batch, device="cuda")]), dim=1)
        scores = torch.cat([(query * key).sum(1, keepdim=True), query @ keys.clone()], 1) / 0.07
        backward(F.cross_entropy(scores, torch.zeros(batch, dtype=torch.long, device="cuda")))
        optimizer.step()
        optimizer.zero_grad()
        keys[:, place : place + batch] = key.t()
        place = (place + batch) % queue


def self_distilled(batch: int, local_views: int) -> None:
    """A student of many crops and a teacher of two, centred, that follows it."""
    with on_cuda():
        student = nn.Sequential(transformer(384, 6, 6), nn.Linear(384, 16_384, bias=False))
        centre = torch.zeros(16_384)
    teacher, optimizer = copy.deepcopy(student).requires_grad_(False), adamw(student.parameters())
    for _ in range(UPDATES):
        wide = torch.randn(2 * batch, 197, 384, device="cuda")
        narrow = torch.randn(local_views * batch, 37, 384, device="cuda")
        with torch.autocast("cuda", dtype=torch.float16):
            seen = torch.cat([student[1](student[0](crops)[:, 0]) for crops in (wide, narrow)]).float()
            with torch.no_grad():
                wanted = teacher[1](teacher[0](wide)[:, 0]).float()
        targets = ((wanted - centre) / 0.04).softmax(-1).chunk(2)
        guesses = (seen / 0.1).log_softmax(-1).chunk(2 + local_views)
        pairs = [(t, g) for i, t in enumerate(targets) for j, g in enumerate(guesses) if i != j]
        backward(torch.stack([-(t * g).sum(-1).mean() for t, g in pairs]).mean())
        optimizer.step()
        optimizer.zero_grad()
        centre.mul_(0.9).add_(wanted.mean(0), alpha=0.1)
        followed(teacher.parameters(), student.parameters(), 4e-3)
