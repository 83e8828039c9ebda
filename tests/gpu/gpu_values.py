"""Bodies of ``test_values.py`` that read values from the card, and take the same whatever they read."""

import collections
import copy
import io
import random
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from gpu_operators import numbers, whole_numbers
from torch import nn

WIDTH = 1024


def network(out=10, depth=2):
    """``depth`` layers of 4 MiB, and a small one."""
    layers = [layer for _ in range(depth) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(WIDTH, out)).cuda()


def batch(size=1024):
    return numbers(size, WIDTH), whole_numbers(10, size)


def trainer(model):
    """A function that takes one step of AdamW, and gives the loss."""
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)

    def step():
        x, y = batch()
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step


# training loops


def losses_are_logged():
    step, total = trainer(network()), 0.0
    for number in range(4):
        total += step().item()
        if number % 2:
            print(f"step {number}: loss {total / (number + 1):.4f}")


def losses_are_printed():
    step = trainer(network())
    for _ in range(2):
        print("loss", step())


def gradients_are_clipped():
    model = network()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        x, y = batch()
        F.cross_entropy(model(x), y).backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
        print(f"norm {norm.item():.3f}")
        optimizer.step()
        optimizer.zero_grad()


def a_scaler_steps():
    model = network()
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cuda", init_scale=2.0**10)
    for _ in range(3):
        x, y = batch()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        print(loss.item(), scaler.get_scale())


def training_stops_early():
    model = network()
    step, best, bad_epochs = trainer(model), float("inf"), 0
    for _ in range(6):
        for _ in range(2):
            step()
        with torch.no_grad():
            x, y = batch()
            loss = F.cross_entropy(model(x), y).item()
        if loss < best:
            best, bad_epochs = loss, 0
        else:
            bad_epochs += 1
        if bad_epochs == 2:
            break


def nan_raises():
    step = trainer(network())
    for _ in range(3):
        loss = step()
        if torch.isnan(loss):
            raise RuntimeError("the loss is NaN")


def nan_is_skipped():
    model = network()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(4):
        x, y = batch()
        loss = F.cross_entropy(model(x), y)
        if not torch.isfinite(loss):
            optimizer.zero_grad()
            continue
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def anomalies_are_detected():
    with torch.autograd.set_detect_anomaly(True):
        step = trainer(network())
        for _ in range(2):
            step()


def the_rate_falls_on_a_plateau():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
    for _ in range(4):
        x, y = batch()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        scheduler.step(loss.item())
        print(scheduler.get_last_lr())


def a_moving_average():
    model = network()
    average = copy.deepcopy(model).requires_grad_(False)
    step = trainer(model)
    for _ in range(3):
        step()
        with torch.no_grad():
            for mean, value in zip(average.parameters(), model.parameters(), strict=True):
                mean.lerp_(value, 0.01)
        print(sum(p.norm().item() for p in average.parameters()))


def gradients_are_accumulated():
    model = network()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        running = torch.zeros((), device="cuda")
        for _ in range(4):
            x, y = batch(512)
            loss = F.cross_entropy(model(x), y) / 4
            loss.backward()
            running += loss.detach()
        optimizer.step()
        optimizer.zero_grad()
        print(running.item())


def the_best_is_saved():
    model = network()
    step, best = trainer(model), float("inf")
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(3):
            loss = step().item()
            if loss < best:
                best = loss
                torch.save(model.state_dict(), Path(folder, "best.pt"))


def the_best_is_copied():
    model = network()
    step, best = trainer(model), float("inf")
    for _ in range(4):
        loss = step().item()
        if loss < best:
            best, kept = loss, copy.deepcopy(model.state_dict())
    model.load_state_dict(kept)


def mixed_up_images():
    model = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    model = model.append(nn.Linear(32, 10)).cuda()
    for _ in range(3):
        share = random.betavariate(1.0, 1.0)
        images, order = numbers(16, 3, 96, 96), torch.randperm(16, device="cuda")
        y = whole_numbers(10, 16)
        scores = model(share * images + (1 - share) * images[order])
        loss = share * F.cross_entropy(scores, y) + (1 - share) * F.cross_entropy(scores, y[order])
        loss.backward()
        print(loss.item())


def paths_are_dropped():
    from timm.layers import DropPath

    block, path = network(WIDTH), DropPath(0.3)
    for _ in range(2):
        x, _ = batch()
        for _ in range(3):
            x = x + path(F.dropout(block(x), 0.1))
        loss = x.square().mean()
        loss.backward()
        print(loss.item())


def a_gradient_penalty():
    critic = network(1)
    optimizer = torch.optim.Adam(critic.parameters(), betas=(0.0, 0.9))
    for _ in range(2):
        real, fake = numbers(512, WIDTH), numbers(512, WIDTH)
        share = torch.rand(512, 1, device="cuda")
        between = (share * real + (1 - share) * fake).requires_grad_()
        (slope,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
        penalty = (slope.norm(dim=1) - 1).square().mean()
        loss = critic(fake).mean() - critic(real).mean() + 10 * penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(loss.item(), penalty.item())


def tasks_are_weighted():
    model, weights = network(20), [1.0, 1.0]
    for _ in range(3):
        x, y = batch()
        first, second = model(x).split(10, dim=1)
        losses = [F.cross_entropy(first, y), F.cross_entropy(second, 9 - y)]
        sum(w * loss for w, loss in zip(weights, losses, strict=True)).backward()
        read = [loss.item() for loss in losses]
        weights = [2 * one / sum(read) for one in read]


def a_spectral_norm():
    layer = nn.utils.parametrizations.spectral_norm(nn.Linear(WIDTH, WIDTH)).cuda()
    for _ in range(2):
        loss = layer(numbers(512, WIDTH)).square().mean()
        loss.backward()
        print(loss.item())


def a_focal_loss():
    model = network()
    for _ in range(2):
        x, y = batch()
        is_counted = torch.rand(len(y), device="cuda") < 0.5
        log_p = F.log_softmax(model(x), dim=-1).gather(1, y[:, None])[:, 0]
        each = -((1 - log_p.exp()) ** 2) * log_p
        loss = (each * is_counted).sum() / is_counted.sum().clamp(min=1)
        loss.backward()
        print(loss.item(), is_counted.float().mean().item())


# what is measured of a model


def accuracies():
    model = network(100)
    right = right_of_five = seen = 0
    with torch.no_grad():
        for _ in range(3):
            x, y = numbers(4096, WIDTH), whole_numbers(100, 4096)
            scores = model(x)
            right += (scores.argmax(dim=1) == y).sum().item()
            right_of_five += scores.topk(5).indices.eq(y[:, None]).any(dim=1).sum().item()
            seen += len(y)
    print(f"{right / seen:.3f} {right_of_five / seen:.3f}")


def a_confusion_matrix():
    model, matrix = network(100), torch.zeros(100, 100, device="cuda", dtype=torch.long)
    with torch.no_grad():
        for _ in range(3):
            x, y = numbers(4096, WIDTH), whole_numbers(100, 4096)
            pairs = y * 100 + model(x).argmax(dim=1)
            matrix += torch.bincount(pairs, minlength=10_000).view(100, 100)
    recall = matrix.diag() / matrix.sum(dim=1).clamp(min=1)
    print(recall.mean().item(), matrix.cpu().numpy().sum())


def metrics_of_torchmetrics():
    from torchmetrics.classification import MulticlassAccuracy, MulticlassConfusionMatrix, MulticlassF1Score

    model = network(50)
    metrics = [
        one(num_classes=50).cuda()
        for one in (MulticlassAccuracy, MulticlassF1Score, MulticlassConfusionMatrix)
    ]
    with torch.no_grad():
        for _ in range(2):
            scores = model(numbers(4096, WIDTH))
            for one in metrics:
                one.update(scores, whole_numbers(50, 4096))
    print([one.compute().float().mean().item() for one in metrics])


def ranks_of_retrieval():
    queries, documents = F.normalize(numbers(1000, 256)), F.normalize(numbers(8000, 256))
    scores, wanted = queries @ documents.T, whole_numbers(8000, 1000)
    ranks = (scores > scores.gather(1, wanted[:, None])).sum(dim=1)
    print({k: (ranks < k).float().mean().item() for k in (1, 5, 10)}, ranks.float().median().item())
    print(scores.topk(10).indices[:2].tolist())


def a_curve_of_precision():
    scores, is_right = torch.rand(2**20, device="cuda"), torch.rand(2**20, device="cuda") < 0.3
    order = scores.argsort(descending=True)
    hits = is_right[order].cumsum(0)
    precision = hits / torch.arange(1, len(hits) + 1, device="cuda")
    print((precision * is_right[order]).sum().item() / hits[-1].item())


def histograms():
    model = network()
    step = trainer(model)
    step()
    for name, parameter in model.named_parameters():
        counts = torch.histc(parameter.grad, bins=20, min=-1, max=1)
        shares = torch.tensor([0.1, 0.5, 0.9], device="cuda")
        low, middle, high = torch.quantile(parameter.grad.flatten()[:100_000], shares).tolist()
        print(name, counts.tolist(), low, middle, high)


def steps_are_timed():
    step = trainer(network())
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(3):
        begin.record()
        step()
        end.record()
        torch.cuda.synchronize()
        print(f"{begin.elapsed_time(end):.1f} ms, {torch.cuda.max_memory_allocated() / 2**20:.0f} MiB")


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
    # its estimate is unchecked: equal figures, but at the peak other parts where the first rate is enough
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
