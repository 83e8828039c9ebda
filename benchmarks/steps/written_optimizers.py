"""Optimizers as papers and their first code write them, and variants of PyTorch's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from .language_models import llama_model
from .research_vision import perceptron
from .training import UPDATES, MakeOptimizer, adamw, backward, language_loss, on_cuda, tokens, trained

_Change = Callable[[Tensor, Tensor, dict[str, Tensor]], None]


class Written(torch.optim.Optimizer):
    """Calls ``change(parameter, gradient, state)`` for each parameter."""

    def __init__(self, parameters: Iterable[nn.Parameter], change: _Change) -> None:
        super().__init__(parameters, {})
        self._change = change

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Without a closure."""
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self._change(p, p.grad, self.state[p])


def _lion(p: Tensor, g: Tensor, state: dict[str, Tensor]) -> None:
    mean = state.setdefault("mean", torch.zeros_like(p))
    p.mul_(1 - 1e-5)
    p.add_((mean * 0.9 + g * 0.1).sign_(), alpha=-1e-4)
    mean.mul_(0.99).add_(g, alpha=0.01)


def _adan(p: Tensor, g: Tensor, state: dict[str, Tensor]) -> None:
    if not state:
        state.update(m=torch.zeros_like(p), d=torch.zeros_like(p), s=torch.zeros_like(p), before=g.clone())
    change = g - state["before"]
    state["m"].mul_(0.98).add_(g, alpha=0.02)
    state["d"].mul_(0.92).add_(change, alpha=0.08)
    both = g + change * 0.92
    state["s"].mul_(0.99).addcmul_(both, both, value=0.01)
    p.addcdiv_(state["m"] + 0.92 * state["d"], state["s"].sqrt().add_(1e-8), value=-1e-4)
    state["before"].copy_(g)


def _lamb(p: Tensor, g: Tensor, state: dict[str, Tensor]) -> None:
    m, v = (state.setdefault(name, torch.zeros_like(p)) for name in ("m", "v"))
    m.mul_(0.9).add_(g, alpha=0.1)
    v.mul_(0.999).addcmul_(g, g, value=0.001)
    change = m / (v.sqrt() + 1e-6) + 0.01 * p
    p.sub_(change * torch.where(change.norm() > 0, p.norm() / change.norm(), 1.0), alpha=1e-3)


def _orthogonal(p: Tensor, g: Tensor, state: dict[str, Tensor]) -> None:
    mean = state.setdefault("mean", torch.zeros_like(p))
    mean.lerp_(g, 0.05)
    if p.ndim != 2:
        p.add_(mean.sign(), alpha=-1e-4)
        return
    x = g.lerp(mean, 0.95).bfloat16()
    x = x.mT if p.shape[0] > p.shape[1] else x
    x = x / (x.norm() + 1e-7)
    for _ in range(5):
        a = x @ x.mT
        x = 3.4445 * x + (-4.775 * a + 2.0315 * a @ a) @ x
    p.add_((x.mT if p.shape[0] > p.shape[1] else x).to(p.dtype), alpha=-0.02)


def _projected(p: Tensor, g: Tensor, state: dict[str, Tensor]) -> None:
    thin = p.ndim == 2 and min(p.shape) > 256
    if thin and "basis" not in state:
        state["basis"] = torch.randn(p.shape[1], 128, device=p.device, dtype=p.dtype) * 128**-0.5
    low = g @ state["basis"] if thin else g
    m, v = (state.setdefault(name, torch.zeros_like(low)) for name in ("m", "v"))
    m.mul_(0.9).add_(low, alpha=0.1)
    v.mul_(0.999).addcmul_(low, low, value=0.001)
    change = m / (v.sqrt() + 1e-8)
    p.sub_(change @ state["basis"].mT if thin else change, alpha=1e-3)


def _factored(p: Tensor, g: Tensor, state: dict[str, Tensor]) -> None:
    if p.ndim != 2 or max(p.shape) > 4096:
        p.sub_(g, alpha=1e-3)
        return
    for name, product in (("left", g @ g.mT), ("right", g.mT @ g)):
        state.setdefault(name, torch.eye(len(product), device=p.device) * 1e-4).add_(product)
    rooted = [state[name] / state[name].diagonal().mean() for name in ("left", "right")]
    for index, factor in enumerate(rooted):
        one, inverse = torch.eye(len(factor), device=p.device), torch.eye(len(factor), device=p.device)
        for _ in range(4):
            t = (3 * one - inverse @ factor) / 2
            factor, inverse = factor @ t, t @ inverse
        rooted[index] = inverse
    p.sub_(rooted[0] @ g @ rooted[1], alpha=1e-3)


class ScheduleFree(torch.optim.Optimizer):
    """Averages in place of a schedule: a second iterate, and an average that gradients are taken at."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """With lists of tensors at once."""
        for group in self.param_groups:
            p, g = group["params"], [p.grad for p in group["params"]]
            if "z" not in group:
                group["z"], group["v"] = [t.clone() for t in p], [torch.zeros_like(t) for t in p]
            torch._foreach_mul_(group["v"], 0.999)
            torch._foreach_addcmul_(group["v"], g, g, value=0.001)
            scale = torch._foreach_add(torch._foreach_sqrt(group["v"]), 1e-8)
            torch._foreach_div_(g, scale)
            torch._foreach_lerp_(p, group["z"], weight=0.1)
            torch._foreach_add_(p, g, alpha=-1e-4)
            torch._foreach_sub_(group["z"], g, alpha=1e-3)


_CHANGES: dict[str, _Change] = {
    "lion": _lion, "adan": _adan, "lamb": _lamb, "orthogonal": _orthogonal, "projected": _projected,
    "factored": _factored,
}  # fmt: skip
_MAKERS: dict[str, MakeOptimizer] = {
    "schedule-free": lambda p: ScheduleFree(p, {}),
    "sgd-fused": partial(torch.optim.SGD, lr=1e-3, momentum=0.9, fused=True),
    "rmsprop-centered-loop": partial(torch.optim.RMSprop, centered=True, momentum=0.9, foreach=False),
    "adam-capturable-fused": lambda p: torch.optim.Adam(
        p, lr=torch.tensor(1e-4), fused=True, amsgrad=True, maximize=True
    ),
    "radam-decoupled": partial(torch.optim.RAdam, decoupled_weight_decay=True, weight_decay=0.01),
}


def written(optimizer: str, dtype: str = "fp32") -> None:
    """A Llama of 160M under an optimizer written by hand, or a variant of PyTorch's."""
    model = llama_model("160m", {"bf16": torch.bfloat16}.get(dtype, torch.float32))
    ids = tokens(2, 300, 32_000)
    make = _MAKERS.get(optimizer) or (lambda p: Written(p, _CHANGES[optimizer]))
    trained(model, language_loss(model, {"input_ids": ids, "labels": ids}), make, clip=True)


def sharpness_aware(rows: int) -> None:
    """SAM: up to where the loss is highest, a gradient there, and back."""
    with on_cuda():
        model, x = perceptron(1024, 4096, 4096, 1024), torch.randn(rows, 1024)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(UPDATES):
        backward(model(x).square().mean())
        parameters = [p for p in model.parameters() if p.grad is not None]
        norm = torch.stack([p.grad.norm() for p in parameters]).norm()  # type: ignore[union-attr]
        before = [p.detach().clone() for p in parameters]
        with torch.no_grad():
            for p in parameters:
                p.add_(p.grad * (0.05 / (norm + 1e-12)))
        optimizer.zero_grad()
        backward(model(x).square().mean())
        with torch.no_grad():
            for p, old in zip(parameters, before, strict=True):
                p.copy_(old)
        optimizer.step()
        optimizer.zero_grad()


def states_on_host(rows: int) -> None:
    """Adam's states on the host, brought to the device parameter by parameter on a stream of their own."""
    with on_cuda():
        model, x = perceptron(1024, 8192, 8192, 1024), torch.randn(rows, 1024)
    states = {p: [torch.zeros(p.shape, pin_memory=True) for _ in range(2)] for p in model.parameters()}
    side = torch.cuda.Stream()
    for _ in range(UPDATES):
        backward(model(x).square().mean())
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side), torch.no_grad():
            for p, on_host in states.items():
                m, v = (t.to("cuda", non_blocking=True) for t in on_host)
                m.lerp_(p.grad, 0.1)  # type: ignore[arg-type]
                v.mul_(0.999).addcmul_(p.grad, p.grad, value=0.001)  # type: ignore[arg-type]
                p.addcdiv_(m, v.sqrt().add_(1e-8), value=-1e-4)
                for kept, now in zip(on_host, (m, v), strict=True):
                    kept.copy_(now, non_blocking=True)
                p.grad = None
        torch.cuda.current_stream().wait_stream(side)


def differentiable_updates(rows: int, inner: int) -> None:
    """A learned rate: SGD's updates are differentiated through."""
    with on_cuda():
        weight, x, wanted = torch.randn(512, 512), torch.randn(rows, 512), torch.randn(rows, 512)
        rate = torch.full((), 0.01, requires_grad=True)
    outer = torch.optim.Adam([rate], lr=1e-3)
    for _ in range(UPDATES):
        inside = weight.clone().requires_grad_()
        moving = inside.clone()
        optimizer = torch.optim.SGD([moving], lr=rate, foreach=False, differentiable=True)
        for _ in range(inner):
            loss = (torch.tanh(x @ moving) - wanted).square().mean()
            (moving.grad,) = torch.autograd.grad(loss, moving, create_graph=True)
            optimizer.step()
        outer.zero_grad()
        backward((torch.tanh(x @ moving) - wanted).square().mean())
        outer.step()


def looked_ahead(rows: int) -> None:
    """Lookahead over AdamW: slow weights, to which the fast ones return."""
    with on_cuda():
        model, x = perceptron(1024, 4096, 4096, 1024), torch.randn(rows, 1024)
    optimizer, slow = adamw(model.parameters()), [p.detach().clone() for p in model.parameters()]
    for _ in range(UPDATES):
        backward(model(x).square().mean())
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            torch._foreach_lerp_(slow, list(model.parameters()), 0.5)
            torch._foreach_copy_(list(model.parameters()), slow)
