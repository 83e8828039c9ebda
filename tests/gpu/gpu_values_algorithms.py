"""Bodies of ``test_values.py`` that sample, search and iterate, and take the same whatever they read."""

import collections
import copy
import io
import random

import torch
import torch.nn.functional as F
from gpu_operators import numbers, whole_numbers
from gpu_values import WIDTH, batch, network, trainer
from torch import nn

# generation


def tokens_are_sampled():
    table, head = nn.Embedding(8000, WIDTH).cuda(), nn.Linear(WIDTH, 8000).cuda()
    tokens = whole_numbers(8000, 64, 1)
    with torch.no_grad():
        for _ in range(8):
            scores = head(table(tokens).mean(dim=1)) / 0.8
            scores[scores < scores.topk(50).values[:, -1:]] = float("-inf")
            tokens = torch.cat([tokens, torch.multinomial(scores.softmax(dim=-1), 1)], dim=1)
    print(tokens[0].tolist())


def the_nucleus_is_sampled():
    table, head = nn.Embedding(8000, WIDTH).cuda(), nn.Linear(WIDTH, 8000).cuda()
    tokens = whole_numbers(8000, 64, 1)
    with torch.no_grad():
        for _ in range(6):
            ranked, order = head(table(tokens).mean(dim=1)).sort(descending=True)
            share = ranked.softmax(dim=-1).cumsum(dim=-1)
            ranked = ranked.masked_fill(share - ranked.softmax(dim=-1) > 0.9, float("-inf"))
            drawn = torch.multinomial(ranked.softmax(dim=-1), 1)
            tokens = torch.cat([tokens, order.gather(1, drawn)], dim=1)
    print(tokens[:2].cpu().numpy())


def beams():
    table, head = nn.Embedding(8000, WIDTH).cuda(), nn.Linear(WIDTH, 8000).cuda()
    tokens, sums = whole_numbers(8000, 8, 4, 1), torch.zeros(8, 4, device="cuda")
    with torch.no_grad():
        for _ in range(6):
            log_p = head(table(tokens).mean(dim=2)).log_softmax(dim=-1)
            sums, chosen = (sums[..., None] + log_p).flatten(1).topk(4)
            beam, token = chosen // 8000, chosen % 8000
            tokens = tokens.gather(1, beam[..., None].expand(-1, -1, tokens.shape[2]))
            tokens = torch.cat([tokens, token[..., None]], dim=2)
    print(tokens[:, 0].tolist(), sums.max().item())


def transformers_generate():
    model = _tiny_llama()
    prompt = whole_numbers(4000, 8, 32)
    options = {"attention_mask": torch.ones_like(prompt), "max_new_tokens": 8, "pad_token_id": 0}
    print(model.generate(prompt, do_sample=False, **options)[0].tolist())
    print(model.generate(prompt, do_sample=True, top_p=0.9, temperature=0.7, **options)[0].tolist())


def _tiny_llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=512, intermediate_size=1024, num_hidden_layers=2, num_attention_heads=8,
        num_key_value_heads=8, vocab_size=4000, eos_token_id=None, bos_token_id=None, pad_token_id=None,
    )  # fmt: skip
    return LlamaForCausalLM(config).cuda().eval()


def images_are_denoised():
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.SiLU(), nn.Linear(WIDTH, WIDTH)).cuda()
    x = numbers(512, WIDTH)
    with torch.no_grad():
        for level in (0.9, 0.6, 0.3):
            clean = (x - level * model(x)) / (1 - level**2) ** 0.5
            bound = torch.quantile(clean.abs(), 0.995, dim=1, keepdim=True).clamp(min=1.0)
            x = clean.clamp(-bound, bound) / bound + level * torch.randn_like(x)
            print(bound.max().item())


# learning by reinforcement


def proximal_policies():
    policy = network(17)
    optimizer = torch.optim.Adam(policy.parameters(), 3e-4)
    for _ in range(2):
        with torch.no_grad():
            states = numbers(2048, WIDTH)
            chances = torch.distributions.Categorical(logits=policy(states)[:, :16])
            actions = chances.sample()
            log_p, gains = chances.log_prob(actions), numbers(2048)
        for _ in range(3):
            drift = 0.0
            for part in torch.randperm(2048, device="cuda").chunk(4):
                scores = policy(states[part])
                now = torch.distributions.Categorical(logits=scores[:, :16])
                ratio = (now.log_prob(actions[part]) - log_p[part]).exp()
                gain = (gains[part] - gains[part].mean()) / (gains[part].std() + 1e-8)
                loss = -torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
                loss = loss + scores[:, 16].square().mean() - 0.01 * now.entropy().mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
                optimizer.step()
                drift += (ratio - 1 - ratio.log()).mean().item()
            if drift / 4 > 0.015:
                break


def deep_q_learning():
    model = network(4)
    target, step = copy.deepcopy(model), torch.optim.Adam(model.parameters(), 1e-4)
    replay, state = collections.deque(maxlen=64), torch.randn(WIDTH)
    for number in range(40):
        if random.random() < 0.3:
            action = random.randrange(4)
        else:
            with torch.no_grad():
                action = model(state[None].cuda()).argmax(dim=1).item()
        following = torch.randn(WIDTH)
        replay.append((state, action, float(action == 0), following))
        state = following
        if number < 32:
            continue
        states, actions, rewards, after = zip(*random.sample(replay, 32), strict=True)
        with torch.no_grad():
            best = target(torch.stack(after).cuda()).max(dim=1).values
        value = model(torch.stack(states).cuda()).gather(1, torch.tensor(actions).cuda()[:, None])[:, 0]
        loss = F.smooth_l1_loss(value, torch.tensor(rewards).cuda() + 0.99 * best)
        step.zero_grad()
        loss.backward()
        step.step()
        if number % 4 == 0:
            target.load_state_dict(model.state_dict())


def soft_actors():
    actor, critic, log_alpha = network(16), network(1), torch.zeros(1, device="cuda", requires_grad=True)
    target = copy.deepcopy(critic).requires_grad_(False)
    steps = [torch.optim.Adam([*one.parameters()], 3e-4) for one in (actor, critic)]
    steps.append(torch.optim.Adam([log_alpha], 3e-4))
    for _ in range(2):
        states, alpha = numbers(512, WIDTH), log_alpha.exp().item()
        mean, spread = actor(states).chunk(2, dim=1)
        chances = torch.distributions.Normal(mean, spread.clamp(-5, 2).exp())
        actions = chances.rsample()
        log_p = chances.log_prob(actions).sum(dim=1, keepdim=True)
        seen = torch.cat([actions.tanh(), states[:, 8:]], dim=1)
        wanted = numbers(512, 1) + 0.99 * (target(seen.detach()) - alpha * log_p.detach())
        losses = [
            (alpha * log_p - critic(seen)).mean(),
            F.mse_loss(critic(seen.detach()), wanted),
            -(log_alpha * (log_p.detach() - 8)).mean(),
        ]
        for step, loss in zip(steps, losses, strict=True):
            step.zero_grad()
            loss.backward(inputs=step.param_groups[0]["params"])
            step.step()
        with torch.no_grad():
            for slow, fast in zip(target.parameters(), critic.parameters(), strict=True):
                slow.lerp_(fast, 0.005)
        print([loss.item() for loss in losses], alpha)


# assignments and codes


def boxes_are_matched():
    from scipy.optimize import linear_sum_assignment

    model, classes = network(4 + 21), 20
    for _ in range(2):
        found = model(numbers(800, WIDTH)).view(8, 100, 25)
        counts = [5, 12, 1, 7, 9, 3, 20, 2]
        labels = [whole_numbers(classes, count) for count in counts]
        boxes = [torch.rand(count, 4, device="cuda") for count in counts]
        loss = 0.0
        for scores, label, box in zip(found, labels, boxes, strict=True):
            cost = torch.cdist(scores[:, :4], box, p=1) - scores[:, 4:].softmax(dim=-1)[:, label]
            rows, columns = linear_sum_assignment(cost.detach().cpu())
            wanted = torch.full((100,), classes, device="cuda")
            wanted[torch.as_tensor(rows).cuda()] = label[torch.as_tensor(columns).cuda()]
            loss = loss + F.l1_loss(scores[rows, :4], box[columns])
            loss = loss + F.cross_entropy(scores[:, 4:], wanted)
        loss.backward()
        print(loss.item())


def a_codebook():
    codes, encoder = numbers(512, 64), nn.Linear(WIDTH, 64).cuda()
    uses = torch.ones(512, device="cuda")
    for _ in range(3):
        z = encoder(numbers(4096, WIDTH))
        nearest = torch.cdist(z, codes).argmin(dim=1)
        chosen = F.one_hot(nearest, 512).float()
        with torch.no_grad():
            uses.lerp_(chosen.sum(dim=0), 0.5)
            codes.lerp_((chosen.T @ z) / uses[:, None].clamp(min=1e-5), 0.1)
            is_dead = uses < 1.0
            if is_dead.any():
                fresh = z[whole_numbers(len(z), 512)]
                codes = torch.where(is_dead[:, None], fresh, codes)
        quantized = z + (codes[nearest] - z).detach()
        loss = quantized.square().mean() + 0.25 * F.mse_loss(z, codes[nearest])
        loss.backward()
        shares = chosen.mean(dim=0)
        print(loss.item(), torch.exp(-(shares * (shares + 1e-10).log()).sum()).item())


def a_queue_of_negatives():
    encoder = network(128)
    keys, queue, position = copy.deepcopy(encoder).requires_grad_(False), F.normalize(numbers(16384, 128)), 0
    for _ in range(3):
        x, _ = batch(512)
        q = F.normalize(encoder(x))
        k = F.normalize(keys(x + 0.1 * torch.randn_like(x)))
        scores = torch.cat([(q * k).sum(dim=1, keepdim=True), q @ queue.T], dim=1) / 0.07
        loss = F.cross_entropy(scores, torch.zeros(512, device="cuda", dtype=torch.long))
        loss.backward()
        queue[position : position + 512] = k
        position = (position + 512) % 16384
        print(loss.item(), (scores.argmax(dim=1) == 0).float().mean().item())


def experts_with_capacity():
    experts, gate = nn.Parameter(numbers(8, 512, 512) * 0.02), nn.Linear(512, 8).cuda()
    for _ in range(2):
        x = numbers(4096, 512).requires_grad_()
        chances = gate(x).softmax(dim=-1)
        weight, expert = chances.topk(2)
        is_sent = F.one_hot(expert.flatten(), 8)
        place = (is_sent.cumsum(dim=0) * is_sent).sum(dim=-1) - 1
        is_kept = place < 1280
        slot = torch.where(is_kept, expert.flatten() * 1280 + place, 8 * 1280)
        inside = x.new_zeros(8 * 1280 + 1, 512).index_copy(0, slot, x.repeat_interleave(2, dim=0))
        out = torch.bmm(inside[:-1].view(8, 1280, 512), experts).flatten(0, 1)
        out = torch.cat([out, out.new_zeros(1, 512)])[slot] * weight.flatten()[:, None]
        balance = 8 * (is_sent.float().mean(dim=0) * chances.mean(dim=0)).sum()
        (out.view(4096, 2, 512).sum(dim=1).square().mean() + 0.01 * balance).backward()
        print(balance.item(), 1 - is_kept.float().mean().item())


def the_hardest_are_kept():
    model = network()
    for _ in range(2):
        x, y = batch(2048)
        each = F.cross_entropy(model(x), y, reduction="none")
        hardest = each.topk(512).values
        hardest.mean().backward()
        print(hardest.min().item(), hardest.max().item())


def discrete_choices():
    model = network(64)
    for temperature in (1.0, 0.5):
        x, _ = batch(4096)
        chosen = F.gumbel_softmax(model(x), tau=temperature, hard=True)
        loss = (chosen @ numbers(64, 64)).square().mean()
        loss.backward()
        print(loss.item(), chosen.sum(dim=0).int().tolist())


# iterations until a tolerance


def sinkhorn():
    cost = torch.cdist(numbers(1000, 32), numbers(1500, 32))
    kernel = torch.exp(-cost / cost.median())
    u, v = torch.ones(1000, device="cuda") / 1000, torch.ones(1500, device="cuda") / 1500
    for _ in range(50):
        before = u
        u = 1 / (kernel @ v) / 1000
        v = 1 / (kernel.T @ u) / 1500
        if (u - before).abs().max().item() < 1e-6:
            break
    print((u[:, None] * kernel * v * cost).sum().item())


def conjugate_gradients():
    half = numbers(1500, 1500) / 40
    matrix, b = half @ half.T + torch.eye(1500, device="cuda"), numbers(1500)
    x, r = torch.zeros_like(b), b.clone()
    p, size = r.clone(), r @ r
    for _ in range(100):
        product = matrix @ p
        alpha = size / (p @ product)
        x += alpha * p
        r -= alpha * product
        before, size = size, r @ r
        if size.sqrt() < 1e-4 * b.norm():
            break
        p = r + (size / before) * p
    print((matrix @ x - b).norm().item())


def a_line_search():
    weight, x, y = numbers(WIDTH, WIDTH) * 0.01, numbers(2048, WIDTH), numbers(2048, WIDTH)

    def loss_at(w):
        return F.mse_loss(torch.tanh(x @ w), y)

    for _ in range(3):
        weight.requires_grad_()
        loss = loss_at(weight)
        (slope,) = torch.autograd.grad(loss, weight)
        weight, rate = weight.detach(), 64.0
        for _ in range(10):
            with torch.no_grad():
                is_enough = loss_at(weight - rate * slope) <= loss - 1e-4 * rate * slope.square().sum()
            if is_enough:
                break
            rate /= 2
        weight = weight - rate * slope


def power_iteration():
    matrix, v = numbers(2000, 2000), F.normalize(numbers(2000), dim=0)
    before = 0.0
    for _ in range(60):
        v = F.normalize(matrix.T @ (matrix @ v), dim=0)
        value = (matrix @ v).norm().item()
        if abs(value - before) < 1e-4 * value:
            break
        before = value


def samples_consensus():
    points = numbers(200_000, 8)
    values = points @ numbers(8) + 0.1 * numbers(200_000)
    best, best_model = -1, None
    for _ in range(10):
        picked = whole_numbers(200_000, 16)
        model = points[picked].T @ values[picked] / 16
        inliers = (points @ model - values).abs() < 0.3
        count = int(inliers.sum())
        if count > best:
            best, best_model = count, model.clone()
    print(best, best_model.flatten().tolist())


def a_state_is_copied_in_memory():
    model = network()
    step, best = trainer(model), float("inf")
    for _ in range(3):
        loss = step().item()
        if loss < best:
            best, kept = loss, io.BytesIO()
            torch.save({"model": model.state_dict(), "loss": loss}, kept)
    kept.seek(0)
    model.load_state_dict(torch.load(kept, map_location="cpu")["model"])
