"""Training steps as research code writes them: sequence models, preferences, agents, teachers."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize

from .language_models import llama_model
from .research_vision import followed, perceptron, transformer
from .training import UPDATES, adamw, backward, on_cuda, tokens, trained


class _Turned(nn.Module):
    """Causal attention with rotary positions, a window and a cache that slides."""

    def __init__(self, width: int, heads: int, window: int) -> None:
        super().__init__()
        self.heads, self.window = heads, window
        self.made, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        rates = 10_000.0 ** (-torch.arange(0, width // heads, 2, dtype=torch.float32) / (width // heads))
        self.rates: Tensor
        self.register_buffer("rates", rates)
        self.cache: tuple[Tensor, Tensor] | None = None

    def turned(self, x: Tensor, begin: int) -> Tensor:
        angles = torch.outer(torch.arange(begin, begin + x.shape[2], device=x.device), self.rates)
        pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)).contiguous())
        return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2).to(x)

    def forward(self, x: Tensor, begin: int = 0, cached: bool = False) -> Tensor:
        q, k, v = self.made(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        q, k = self.turned(q, begin), self.turned(k, begin)
        if cached and self.cache is not None:
            k, v = (torch.cat(pair, 2)[:, :, -self.window :] for pair in zip(self.cache, (k, v), strict=True))
        if cached:
            self.cache = k, v
        columns = torch.arange(k.shape[2], device=x.device)
        rows = columns[-x.shape[1] :]
        far = rows[:, None] - columns
        mask = (far >= 0) & (far < self.window)
        found: Tensor = self.out(F.scaled_dot_product_attention(q, k, v, mask).transpose(1, 2).flatten(-2))
        return found


def windowed_rotary(batch: int, length: int, new_tokens: int) -> None:
    """A rotary decoder with a window: an update, and then words one by one with a cache that slides."""
    with on_cuda(torch.bfloat16):
        words, head = nn.Embedding(32_000, 1024), nn.Linear(1024, 32_000, bias=False)
        layers = nn.ModuleList([_Turned(1024, 16, 256) for _ in range(6)])
    ids = tokens(batch, length, 32_000)

    def scores(ids: Tensor, begin: int = 0, cached: bool = False) -> Tensor:
        x = words(ids)
        for layer in layers:
            x = x + layer(F.rms_norm(x, (1024,)), begin, cached)
        out: Tensor = head(x)
        return out

    trained(nn.ModuleList([words, head, layers]), lambda: F.cross_entropy(scores(ids).transpose(1, 2), ids))
    with torch.no_grad():
        for place in range(new_tokens):
            ids = scores(ids, 0 if place == 0 else length + place, True)[:, -1:].argmax(-1)


def scanned_attention(batch: int, length: int) -> None:
    """Linear attention with decay: a state from token to token, in a loop."""
    with on_cuda():
        made, out = nn.Linear(512, 4 * 512), nn.Linear(512, 512)
        x = torch.randn(batch, length, 512)

    def loss() -> Tensor:
        r, k, v, w = (part.unflatten(-1, (8, 64)) for part in made(x).chunk(4, -1))
        decay, state, rows = torch.exp(-torch.exp(w)), torch.zeros(batch, 8, 64, 64, device="cuda"), []
        for place in range(length):
            added = k[:, place, :, :, None] * v[:, place, :, None]
            rows.append((r[:, place, :, None] @ (state + added)).flatten(1))
            state = state * decay[:, place, :, :, None] + added
        error: Tensor = out(torch.stack(rows, 1)).square().mean()
        return error

    trained(nn.ModuleList([made, out]), loss)


def long_convolutions(batch: int, length: int) -> None:
    """State spaces as kernels as long as the sequence, applied by Fourier transforms."""
    with on_cuda():
        x, decay, turn = torch.randn(batch, 256, length), torch.randn(4, 256, 32), torch.randn(4, 256, 32)
        into, mixed = torch.randn(4, 256, 32, 2), nn.ModuleList([nn.Conv1d(256, 512, 1) for _ in range(4)])
    rates = nn.ParameterList([nn.Parameter(t) for t in (decay, turn, into)])

    def loss() -> Tensor:
        out, places = x, torch.arange(length, device="cuda")
        for layer, mix in enumerate(mixed):
            poles = torch.complex(-rates[0][layer].exp(), rates[1][layer])
            kernel = torch.einsum("hn,hnl->hl", torch.view_as_complex(rates[2][layer]),
                                  torch.exp(poles[..., None] * 1e-3 * places)).real  # fmt: skip
            waves = torch.fft.rfft(out, 2 * length) * torch.fft.rfft(kernel, 2 * length)
            out = out + F.glu(mix(F.gelu(torch.fft.irfft(waves, 2 * length)[..., :length])), 1)
        return out.square().mean()

    trained(nn.ModuleList([mixed, rates]), loss)


def mixture_of_depths(batch: int, length: int) -> None:
    """Layers that an eighth of the tokens pass: those that a router prefers; the others skip them."""
    with on_cuda():
        layers = nn.ModuleList([transformer(768, 1, 12) for _ in range(8)])
        routers = nn.ModuleList([nn.Linear(768, 1) for _ in range(8)])
        x = torch.randn(batch, length, 768)

    def loss() -> Tensor:
        out = x
        for layer, router in zip(layers, routers, strict=True):
            weights, chosen = router(out).squeeze(-1).topk(length // 8, sorted=False)
            places = chosen.sort(1).indices
            chosen, weights = chosen.gather(1, places), weights.gather(1, places)
            index = chosen[..., None].expand(-1, -1, 768)
            passed = layer(out.gather(1, index)) * weights.sigmoid()[..., None]
            out = out.scatter_add(1, index, passed.to(out.dtype))
        return out.square().mean()

    trained(nn.ModuleList([layers, routers]), loss, autocast=torch.bfloat16)


def _log_likelihoods(model: Any, ids: Tensor, answers: Tensor) -> Tensor:
    logits = model(input_ids=ids).logits[:, :-1].float()
    each: Tensor = logits.log_softmax(-1).gather(2, ids[:, 1:, None]).squeeze(-1)
    return each * answers[:, 1:]


def preferred(batch: int, length: int) -> None:
    """Preferences (DPO): chosen and rejected answers under a model and under the one it began as."""
    model = llama_model("160m", torch.bfloat16)
    reference = copy.deepcopy(model).eval().requires_grad_(False)
    ids, answers = tokens(2 * batch, length, 32_000), torch.ones(2 * batch, length, device="cuda")
    answers[:, : length // 4] = 0

    def loss() -> Tensor:
        with torch.no_grad():
            before = _log_likelihoods(reference, ids, answers).sum(1)
        good, bad = (_log_likelihoods(model, ids, answers).sum(1) - before).chunk(2)
        return -F.logsigmoid(0.1 * (good - bad)).mean()

    trained(model, loss, clip=True)


def grouped_policy(group: int, length: int, epochs: int) -> None:
    """Group-relative policy updates: answers are drawn, compared within their group, and learned from."""
    model = llama_model("160m", torch.float32, use_cache=True)
    optimizer, answers = adamw(model.parameters()), torch.ones(group, length, device="cuda")
    ids = tokens(group, length // 2, 32_000)
    with torch.no_grad():
        output = model(input_ids=ids, use_cache=True)
        for _ in range(length // 2):
            word = torch.multinomial(output.logits[:, -1].softmax(-1), 1)
            ids = torch.cat([ids, word], 1)
            output = model(input_ids=word, past_key_values=output.past_key_values, use_cache=True)
        del output
        before = _log_likelihoods(model, ids, answers)
    rewards = torch.rand(group, device="cuda")
    gains = ((rewards - rewards.mean()) / (rewards.std() + 1e-4))[:, None]
    for _ in range(epochs):
        for rows in torch.arange(group, device="cuda").chunk(2):
            with torch.autocast("cuda", dtype=torch.bfloat16):
                now = _log_likelihoods(model, ids[rows], answers[rows])
            ratio = (now - before[rows]).exp()
            backward(-torch.min(ratio * gains[rows], ratio.clamp(0.8, 1.2) * gains[rows]).mean())
        optimizer.step()
        optimizer.zero_grad()


class _Adapter(nn.Module):
    """Two thin matrices that are added to a weight."""

    def __init__(self, rows: int, columns: int, rank: int) -> None:
        super().__init__()
        self.down = nn.Parameter(torch.randn(rank, columns) * 0.01)
        self.up = nn.Parameter(torch.zeros(rows, rank))

    def forward(self, weight: Tensor) -> Tensor:
        return weight + self.up @ self.down


def adapted_by_hand(length: int, rank: int) -> None:
    """LoRA by parametrizations of every linear layer of a frozen Llama."""
    model = llama_model("160m", torch.bfloat16).requires_grad_(False)
    for layer in [m for m in model.modules() if isinstance(m, nn.Linear)]:
        with on_cuda(torch.bfloat16):
            adapter = _Adapter(layer.out_features, layer.in_features, rank)
            parametrize.register_parametrization(layer, "weight", adapter)
    ids = tokens(4, length, 32_000)
    trained(model, lambda: model(input_ids=ids, labels=ids).loss)


def taught_words(rows: int, vocabulary: int) -> None:
    """A student learns a teacher's distribution over many words, and its hidden states."""
    with on_cuda():
        teacher, student = transformer(1024, 4, 16), transformer(512, 2)
        wide, thin, between = nn.Linear(1024, vocabulary), nn.Linear(512, vocabulary), nn.Linear(512, 1024)
        x, labels = torch.randn(8, rows, 1024), torch.randint(0, vocabulary, (8, rows))

    def loss() -> Tensor:
        with torch.no_grad():
            seen = teacher(x)
            wanted = (wide(seen) / 2).log_softmax(-1)
        found = student(x[..., :512].contiguous())
        guess = thin(found)
        apart = F.kl_div((guess / 2).log_softmax(-1), wanted, reduction="batchmean", log_target=True)
        return (
            4 * apart
            + F.cross_entropy(guess.flatten(0, 1), labels.flatten())
            + F.mse_loss(between(found), seen)
        )

    trained(nn.ModuleList([student, thin, between]), loss, autocast=torch.bfloat16)


def proximal_policy(steps: int, epochs: int) -> None:
    """PPO: advantages backwards in time, then epochs over shuffled minibatches of a rollout."""
    with on_cuda():
        actor, critic, states = (
            perceptron(376, 1024, 1024, 34),
            perceptron(376, 1024, 1024, 1),
            torch.randn(steps, 64, 376),
        )
        rewards, gains = torch.randn(steps, 64), torch.zeros(steps, 64)
    optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=3e-4, eps=1e-5)
    with torch.no_grad():
        policy = torch.distributions.Normal(*actor(states).chunk(2, -1), validate_args=False)  # type: ignore[misc]
        moves, values = policy.mean, critic(states).squeeze(-1)
        before, gain = policy.log_prob(moves).sum(-1), torch.zeros(64, device="cuda")
        for t in reversed(range(steps - 1)):
            gain = rewards[t] + 0.99 * values[t + 1] - values[t] + 0.95 * 0.99 * gain
            gains[t] = gain
    flat = [t.flatten(0, 1) for t in (states, moves, before, gains, gains + values)]
    for _ in range(epochs):
        for rows in torch.randperm(steps * 64, device="cuda").split(4096):
            x, move, old, gain, wanted = (t[rows] for t in flat)
            mean, scale = actor(x).chunk(2, -1)
            now = torch.distributions.Normal(mean, scale.exp(), validate_args=False)
            ratio, gain = (now.log_prob(move).sum(-1) - old).exp(), (gain - gain.mean()) / (gain.std() + 1e-8)
            policy_loss = -torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
            backward(
                policy_loss + 0.5 * F.mse_loss(critic(x).squeeze(-1), wanted) - 0.01 * now.entropy().mean()
            )
            nn.utils.clip_grad_norm_(actor.parameters(), 0.5)
            optimizer.step()
            optimizer.zero_grad()


def soft_actor(batch: int, buffer: int) -> None:
    """SAC: two critics with slow targets, an actor and a temperature, from a buffer on the host."""
    with on_cuda():
        actor, critics = (
            perceptron(376, 1024, 1024, 34),
            nn.ModuleList([perceptron(393, 1024, 1024, 1) for _ in range(2)]),
        )
        heat = nn.Parameter(torch.zeros(()))
    targets, store = copy.deepcopy(critics).requires_grad_(False), torch.randn(buffer, 2 * 376 + 17 + 1)
    optimizers = [torch.optim.Adam(p, lr=3e-4) for p in (actor.parameters(), critics.parameters(), [heat])]

    def acted(x: Tensor) -> tuple[Tensor, Tensor]:
        mean, scale = actor(x).chunk(2, -1)
        raw = mean + scale.clamp(-20, 2).exp() * torch.randn_like(mean)
        spread = (
            -0.5 * ((raw - mean) / scale.exp()).square() - scale - torch.log1p(-raw.tanh().square() + 1e-6)
        )
        return raw.tanh(), spread.sum(-1, keepdim=True)

    for _ in range(UPDATES):
        rows = store[torch.randint(0, buffer, (batch,))].pin_memory().to("cuda", non_blocking=True)
        x, after, move, reward = rows.split([376, 376, 17, 1], -1)
        with torch.no_grad():
            best, odds = acted(after)
            later = torch.min(*(critic(torch.cat([after, best], -1)) for critic in targets))
            wanted = reward + 0.99 * (later - heat.exp() * odds)
        critic_loss = sum(F.mse_loss(critic(torch.cat([x, move], -1)), wanted) for critic in critics)
        made, odds = acted(x)
        value = torch.min(*(critic(torch.cat([x, made], -1)) for critic in critics))
        actor_loss = (heat.exp().detach() * odds - value).mean()
        for optimizer, loss in zip(
            optimizers, (actor_loss, critic_loss, -(heat * (odds.detach() - 17)).mean()), strict=True
        ):
            optimizer.zero_grad()
            backward(loss)
        for optimizer in optimizers:
            optimizer.step()
        followed(targets.parameters(), critics.parameters(), 5e-3)
