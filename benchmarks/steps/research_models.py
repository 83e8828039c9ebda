"""Training steps as research code writes them: adversaries, flows, energies, solvers, derivatives twice."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .research_vision import perceptron
from .training import UPDATES, adamw, backward, on_cuda, trained


def penalized_critic(batch: int, critic_steps: int) -> None:
    """A generator and a critic whose gradient between real and made images is held at one."""
    with on_cuda():
        maker, critic = perceptron(128, 1024, 2048, 3072), perceptron(3072, 2048, 1024, 1)
        real = torch.rand(batch, 3072)
    makes, judges = (torch.optim.Adam(m.parameters(), lr=1e-4, betas=(0.0, 0.9)) for m in (maker, critic))
    for _ in range(UPDATES):
        for _ in range(critic_steps):
            judges.zero_grad()
            made = maker(torch.randn(batch, 128, device="cuda")).detach()
            share = torch.rand(batch, 1, device="cuda")
            between = (share * real + (1 - share) * made).requires_grad_()
            (slope,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
            penalty = (slope.norm(2, dim=1) - 1).square().mean()
            backward(critic(made).mean() - critic(real).mean() + 10 * penalty)
            judges.step()
        makes.zero_grad()
        backward(-critic(maker(torch.randn(batch, 128, device="cuda"))).mean())
        makes.step()


def coupled_flow(rows: int, layers: int) -> None:
    """A normalizing flow of affine couplings, its likelihood maximised."""
    with on_cuda():
        model = nn.ModuleList([perceptron(256, 1024, 1024, 512) for _ in range(layers)])
        x = torch.randn(rows, 512)

    def loss() -> Tensor:
        z, volume = x, torch.zeros(rows, device="cuda")
        for part in model:
            kept, moved = z.chunk(2, -1)
            scale, shift = part(kept).chunk(2, -1)
            scale = torch.tanh(scale)
            z = torch.cat([moved * scale.exp() + shift, kept], -1)
            volume = volume + scale.sum(-1)
        return (0.5 * z.square().sum(-1) - volume).mean()

    trained(model, loss, lambda p: torch.optim.Adamax(p, lr=1e-4))


def sampled_energies(rows: int, moves: int) -> None:
    """An energy, trained on samples that a walk along its gradient finds and a buffer keeps."""
    with on_cuda():
        model, real, buffer = (
            perceptron(784, 2048, 2048, 1),
            torch.rand(rows, 784),
            torch.rand(10 * rows, 784),
        )
    optimizer = adamw(model.parameters())
    for _ in range(UPDATES):
        chosen = torch.randint(0, 10 * rows, (rows,), device="cuda")
        x = buffer[chosen].requires_grad_()
        for _ in range(moves):
            (slope,) = torch.autograd.grad(model(x).sum(), x)
            x.data.add_(slope.clamp(-0.03, 0.03), alpha=-10).add_(torch.randn_like(x), alpha=0.005).clamp_(
                0, 1
            )
        buffer[chosen] = x.detach()
        low, high = model(real), model(x.detach())
        backward((low - high).mean() + 0.1 * (low.square() + high.square()).mean())
        optimizer.step()
        optimizer.zero_grad()


class _Sine(nn.Module):
    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.layer = nn.Linear(before, after)

    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(30 * self.layer(x))


def laplacian_field(points: int) -> None:
    """A field of sines fitted by its Laplacian: derivatives of derivatives, and their gradients."""
    with on_cuda():
        model = nn.Sequential(_Sine(3, 256), _Sine(256, 256), _Sine(256, 256), nn.Linear(256, 1))
        wanted = torch.randn(points)

    def loss() -> Tensor:
        x = torch.rand(points, 3, device="cuda", requires_grad=True)
        (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        bends = [
            torch.autograd.grad(slope[:, axis].sum(), x, create_graph=True)[0][:, axis] for axis in range(3)
        ]
        return F.mse_loss(torch.stack(bends).sum(0), wanted)

    trained(model, loss)


def meta_learned(tasks: int, rows: int, inner: int) -> None:
    """Weights that a few steps adapt to each task: gradients of gradients, by ``torch.func`` over tasks."""
    from torch.func import functional_call, grad, vmap

    with on_cuda():
        model = perceptron(64, 512, 512, 8)
        x, y = torch.randn(2, tasks, rows, 64), torch.randn(2, tasks, rows, 8)

    def error(weights: dict[str, Tensor], rows: Tensor, wanted: Tensor) -> Tensor:
        return F.mse_loss(functional_call(model, weights, (rows,)), wanted)

    def adapted(x1: Tensor, y1: Tensor, x2: Tensor, y2: Tensor) -> Tensor:
        weights: dict[str, Tensor] = dict(model.named_parameters())
        for _ in range(inner):
            slopes = grad(error)(weights, x1, y1)
            weights = {name: value - 0.01 * slopes[name] for name, value in weights.items()}
        return error(weights, x2, y2)

    trained(model, lambda: vmap(adapted)(x[0], y[0], x[1], y[1]).mean())


class _FixedPoint(torch.autograd.Function):
    """``z`` with ``z = tanh(z W + x)``, by iteration; its gradient solves the transposed equation so."""

    @staticmethod
    def forward(context: object, x: Tensor, weight: Tensor) -> Tensor:
        z = torch.zeros_like(x)
        for _ in range(20):
            z = torch.tanh(z @ weight + x)
        context.save_for_backward(z, weight)  # type: ignore[attr-defined]
        return z

    @staticmethod
    def backward(context: object, gradient: Tensor) -> tuple[Tensor, Tensor]:
        z, weight = context.saved_tensors  # type: ignore[attr-defined]
        bend, solved = 1 - z.square(), gradient
        for _ in range(20):
            solved = gradient + (solved * bend) @ weight.t()
        return solved * bend, z.t() @ (solved * bend)


def at_equilibrium(rows: int) -> None:
    """A layer at its fixed point, whose gradient needs nothing of the way there."""
    with on_cuda():
        weight, into, head = (
            nn.Parameter(torch.randn(1024, 1024) * 0.01),
            nn.Linear(512, 1024),
            nn.Linear(1024, 10),
        )
        x, labels = torch.randn(rows, 512), torch.randint(0, 10, (rows,))
    model = nn.ModuleList([into, head, nn.ParameterList([weight])])
    trained(model, lambda: F.cross_entropy(head(_FixedPoint.apply(into(x), weight)), labels))  # type: ignore[no-untyped-call]


def made_weights(tasks: int, rows: int) -> None:
    """A network that makes the weights of another one for each task."""
    with on_cuda():
        maker, tasks_of, x = (
            perceptron(64, 256, 256 * 128 + 128),
            torch.randn(tasks, 64),
            torch.randn(tasks, rows, 256),
        )
        head, wanted = nn.Linear(128, 16), torch.randn(tasks, rows, 16)

    def loss() -> Tensor:
        weight, bias = maker(tasks_of).split([256 * 128, 128], -1)
        hidden = torch.baddbmm(bias[:, None], x, weight.view(tasks, 256, 128)).relu()
        return F.mse_loss(head(hidden), wanted)

    trained(nn.ModuleList([maker, head]), loss)


def passed_messages(nodes: int, edges: int, layers: int) -> None:
    """A graph network by hand: messages along edges, softmax over neighbours, pooled graphs."""
    with on_cuda():
        parts = [(perceptron(272, 256, 128), nn.Linear(128, 1), perceptron(256, 128)) for _ in range(layers)]
        model = nn.ModuleList([nn.ModuleList(part) for part in parts])
        start, ends = torch.randint(0, nodes, (2, edges)).unbind()
        x, features, graph = torch.randn(nodes, 128), torch.randn(edges, 16), torch.arange(nodes) // 50

    def loss() -> Tensor:
        h = x
        for message, score, change in parts:
            sent = message(torch.cat([h[start], h[ends], features], -1))
            weight = score(sent).squeeze(-1)
            most = torch.full((nodes,), -1e9, device="cuda").scatter_reduce(0, ends, weight, "amax")
            weight = (weight - most.detach()[ends]).exp()
            total = torch.zeros(nodes, device="cuda").index_add(0, ends, weight)
            sent = sent * (weight / total[ends])[:, None]
            h = h + change(torch.cat([h, torch.zeros_like(h).index_add(0, ends, sent)], -1))
        pooled = torch.zeros(nodes // 50 + 1, 128, device="cuda").index_add(0, graph, h)
        return pooled.square().mean()

    trained(model, loss)
