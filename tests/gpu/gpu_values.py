"""Bodies of ``test_values.py`` that read values from the card, and take the same whatever they read."""

import copy
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
