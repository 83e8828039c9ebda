"""Bodies of ``test_values.py`` whose memory depends on values: of the card, or drawn by the host."""

import random

import torch
import torch.nn.functional as F
from gpu_operators import backward, leaf, numbers, whole_numbers
from gpu_values import WIDTH, batch, network
from torch import nn


def half(*shape):
    """A mask of which about half is true."""
    return torch.rand(*shape, device="cuda") < 0.5


# masks


def rows_of_a_mask():
    backward(leaf(8192, WIDTH)[half(8192)])


def elements_of_a_mask():
    backward(leaf(4096, WIDTH).masked_select(half(4096, WIDTH)))


def places():
    x = numbers(4096, WIDTH)
    rows, columns = torch.nonzero(x > 1.0, as_tuple=True)
    return x[rows, columns].exp()


def masked_tokens():
    model = network(2000)
    tokens = whole_numbers(2000, 4096)
    is_hidden = torch.rand(4096, device="cuda") < 0.15
    hidden = model[:-1](numbers(4096, WIDTH))
    F.cross_entropy(model[-1](hidden[is_hidden]), tokens[is_hidden]).backward()


def tokens_are_pruned():
    x = leaf(8, 1024, 512)
    norms = x.detach().norm(dim=-1)
    kept = x[norms > norms.median()]
    backward(F.gelu(kept @ numbers(512, 2048)))


def hard_negatives():
    model = network()
    x, y = batch(4096)
    each = F.cross_entropy(model(x), y, reduction="none")
    with torch.no_grad():
        is_hard = each > each.mean()
    F.cross_entropy(model(x[is_hard]), y[is_hard]).backward()


def pairs_of_a_class():
    x, y = F.normalize(leaf(256, 256)), whole_numbers(10, 256)
    first, second = torch.where(y[:, None] == y[None])
    (x[first] - x[second]).square().sum(dim=1).mean().backward()


def neighbours():
    x = torch.rand(1500, 3, device="cuda")
    source, target = (torch.cdist(x, x) < 0.25).nonzero().T
    return torch.zeros(1500, 3, device="cuda").index_add_(0, target, x[source] - x[target])


def filtered_detections():
    boxes, scores = torch.rand(200_000, 4, device="cuda"), torch.rand(200_000, device="cuda")
    is_sure = scores > 0.6
    boxes, scores = boxes[is_sure], scores[is_sure]
    boxes = torch.cat([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], dim=1)
    best = scores.topk(min(1000, len(scores))).indices
    return boxes[best]


def suppressed_boxes():
    from torchvision.ops import nms

    corner, size = torch.rand(6000, 2, device="cuda") * 1000, torch.rand(6000, 2, device="cuda") * 100 + 5
    boxes = torch.cat([corner, corner + size], dim=1)
    kept = nms(boxes, torch.rand(6000, device="cuda"), 0.3)
    backward(leaf(6000, WIDTH)[kept])


# sorts of what is there


def distinct_numbers():
    values, inverse = torch.unique(whole_numbers(2**19, 2**20), return_inverse=True)
    return torch.zeros(len(values), 16, device="cuda").index_add_(0, inverse, numbers(2**20, 16))


def voxels():
    points = torch.rand(300_000, 3, device="cuda")
    cells, inverse = torch.unique((points * 32).long(), dim=0, return_inverse=True)
    sums = torch.zeros(len(cells), 64, device="cuda").index_add_(0, inverse, numbers(300_000, 64))
    return sums / torch.bincount(inverse, minlength=len(cells))[:, None]


def sparse_gradients():
    table = nn.Embedding(50_000, 256, sparse=True).cuda()
    optimizer = torch.optim.SparseAdam(table.parameters())
    for _ in range(2):
        table(whole_numbers(20_000, 64, 512)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def classes_without_a_bound():
    return F.one_hot(whole_numbers(1000, 8192)).float()


# counts


def experts_by_masks():
    experts, gate = [nn.Linear(512, 2048).cuda() for _ in range(8)], nn.Linear(512, 8).cuda()
    x = leaf(4096, 512)
    weight, chosen = gate(x).softmax(dim=-1).topk(2)
    out = torch.zeros(4096, 2048, device="cuda")
    for number, expert in enumerate(experts):
        token, place = torch.where(chosen == number)
        out = out.index_add(0, token, F.gelu(expert(x[token])) * weight[token, place, None])
    out.square().mean().backward()


def experts_by_counts():
    experts, gate = [nn.Linear(512, 2048).cuda() for _ in range(8)], nn.Linear(512, 8).cuda()
    x = leaf(4096, 512)
    chosen = gate(x).argmax(dim=1)
    order = chosen.argsort()
    counts = torch.bincount(chosen, minlength=8).tolist()
    parts = x[order].split(counts)
    out = [F.gelu(expert(part)) for expert, part in zip(experts, parts, strict=True)]
    torch.cat(out).square().mean().backward()


def packed_sequences():
    lengths = whole_numbers(128, 64) + 1
    lstm = nn.LSTM(256, 512, batch_first=True).cuda()
    x = nn.utils.rnn.pack_padded_sequence(
        numbers(64, 128, 256), lengths.cpu(), batch_first=True, enforce_sorted=False
    )
    out, _ = nn.utils.rnn.pad_packed_sequence(lstm(x)[0], batch_first=True)
    out.square().mean().backward()


def a_batch_is_trimmed():
    lengths = whole_numbers(300, 16) + 1
    layer = nn.TransformerEncoderLayer(512, 8, batch_first=True).cuda()
    longest = int(lengths.max())
    is_padding = torch.arange(longest, device="cuda") >= lengths[:, None]
    layer(numbers(16, 512, 512)[:, :longest], src_key_padding_mask=is_padding).square().mean().backward()


def ragged_batches():
    lengths = (whole_numbers(400, 32) + 1).tolist()
    rows = [numbers(length, 256) for length in lengths]
    x = nn.utils.rnn.pad_sequence(rows, batch_first=True)
    return F.gelu(x @ numbers(256, 1024))


def padding_is_removed():
    mask = torch.arange(512, device="cuda") < (whole_numbers(512, 16) + 1)[:, None]
    indices = mask.flatten().nonzero().flatten()
    ends = F.pad(mask.sum(dim=1).cumsum(0), (1, 0)).int()
    x = numbers(16 * 512, 512)[indices]
    x = F.gelu(x @ numbers(512, 2048))
    longest = int((ends[1:] - ends[:-1]).max())
    return x.mean(), longest


def vocabularies_are_cut():
    scores, head = numbers(64, 4000), numbers(4000, 128)
    ranked, order = (scores * 2).softmax(dim=-1).sort(descending=True)
    most = int((ranked.cumsum(dim=-1) < 0.9).sum(dim=1).max())
    return head[order[:, :most]].mean(dim=-1)


# ends


def exits_are_early():
    blocks, x = [network(WIDTH) for _ in range(4)], numbers(2048, WIDTH)
    for block in blocks:
        x = x + block(x)
        if x.std().item() > 1.05:
            break
    x.square().mean().backward()


def computation_adapts():
    cell, halt = nn.Linear(WIDTH, WIDTH).cuda(), nn.Linear(WIDTH, 1).cuda()
    x, total = numbers(1024, WIDTH), torch.zeros(1024, 1, device="cuda")
    for _ in range(12):
        x = torch.tanh(cell(x))
        total = total + halt(x).sigmoid()
        if (total > 1.0).all():
            break
    (x.square().mean() + total.mean()).backward()


def generation_ends():
    table, head = nn.Embedding(50, WIDTH).cuda(), nn.Linear(WIDTH, 50).cuda()
    states, is_done = [numbers(256, WIDTH)], torch.zeros(256, device="cuda", dtype=torch.bool)
    with torch.no_grad():
        for _ in range(64):
            token = torch.multinomial(head(states[-1]).softmax(dim=-1), 1)[:, 0]
            states.append(torch.tanh(states[-1] + table(token)))
            is_done |= token < 10
            if is_done.all():
                break
    return torch.stack(states)


def drafts_are_verified():
    head, cache = nn.Linear(WIDTH, 2000).cuda(), numbers(64, 0, WIDTH)
    with torch.no_grad():
        for _ in range(8):
            draft = numbers(64, 4, WIDTH)
            chances = head(draft).softmax(dim=-1).amax(dim=-1)
            is_good = torch.rand(64, 4, device="cuda") < chances / chances.mean()
            length = int(is_good.long().cumprod(dim=1).sum(dim=1).min().clamp(min=1))
            cache = torch.cat([cache, draft[:, :length]], dim=1)


def policies_stop_by_drift():
    policy = network(16)
    optimizer = torch.optim.Adam(policy.parameters(), 3e-2)
    states = numbers(4096, WIDTH)
    with torch.no_grad():
        before = policy(states).log_softmax(dim=-1)
    for _ in range(4):
        now = policy(states).log_softmax(dim=-1)
        if (before.exp() * (before - now)).sum(dim=1).mean() > 0.02:
            break
        optimizer.zero_grad()
        (-(now[:, 0] - before[:, 0]).exp() * numbers(4096)).mean().backward()
        optimizer.step()


# what is made or kept


def a_scaler_overflows():
    model = network()
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cuda", init_scale=2.0**40)
    for _ in range(2):
        x, y = batch()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


def limited_memory_bfgs():
    model = network(depth=1)
    x, y = batch()
    optimizer = torch.optim.LBFGS(
        model.parameters(), max_iter=6, history_size=4, line_search_fn="strong_wolfe"
    )

    def closure():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss

    optimizer.step(closure)


def surprises_are_kept():
    model, kept = network(), []
    with torch.no_grad():
        for _ in range(8):
            x, y = batch(2048)
            if F.cross_entropy(model(x), y).item() > 2.31:
                kept.append(x)
    return kept


def replays_are_filtered():
    buffer, priority = numbers(16_384, WIDTH), torch.rand(16_384, device="cuda")
    for _ in range(3):
        is_kept = priority > priority.mean() * 0.5
        buffer, priority = buffer[is_kept], priority[is_kept]
        buffer = torch.cat([buffer, numbers(1024, WIDTH)])
        priority = torch.cat([priority, torch.rand(1024, device="cuda")])


def a_gate_chooses_a_branch():
    gate, small, large = nn.Linear(WIDTH, 1).cuda(), network(WIDTH, 1), network(WIDTH, 4)
    x, _ = batch()
    branch = large if gate(x).sigmoid().mean().item() > 0.5 else small
    branch(x).square().mean().backward()


def layers_are_dropped():
    layers, x = [network(WIDTH) for _ in range(4)], numbers(2048, WIDTH)
    for layer in layers:
        if random.random() < 0.5:
            x = x + layer(x)
    (x * torch.ones((), device="cuda", requires_grad=True)).square().mean().backward()


def patches_are_pasted():
    images = numbers(32, 3, 224, 224)
    for _ in range(2):
        side = int(224 * (1 - random.betavariate(1.0, 1.0)) ** 0.5)
        order = torch.randperm(32, device="cuda")
        images[:, :, :side, :side] = images[order, :, :side, :side]


def graphs_with_loops():
    from torch_geometric.nn import GCNConv

    layer, edges = GCNConv(256, 256).cuda(), whole_numbers(4000, 2, 40_000)
    layer(numbers(4000, 256), edges).square().mean().backward()


def attention_over_edges():
    from torch_geometric.nn import GATConv
    from torch_geometric.utils import remove_self_loops

    layer, edges = GATConv(256, 64, heads=4).cuda(), whole_numbers(50, 2, 20_000)
    edges, _ = remove_self_loops(edges)
    layer(numbers(50, 256), edges).square().mean().backward()


# a truth at the end of a step, or of a loop


def large_gradients_are_skipped():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    for _ in range(4):
        x, y = batch()
        F.cross_entropy(model(x), y).backward()
        norm = nn.utils.get_total_norm([p.grad for p in model.parameters()])
        if norm < 1e4:
            optimizer.step()
        optimizer.zero_grad()


def means_of_clusters():
    x = numbers(20_000, 64)
    centres = x[:100].clone()
    for _ in range(20):
        nearest = torch.cdist(x, centres).argmin(dim=1)
        sums = torch.zeros_like(centres).index_add_(0, nearest, x)
        counts = torch.bincount(nearest, minlength=100)[:, None]
        following = torch.where(counts > 0, sums / counts.clamp(min=1), centres)
        shift = (following - centres).norm()
        centres = following
        if shift < 1e-3:
            break


def bisection():
    scores = numbers(2048, 2048)
    low, high = scores.max(dim=1, keepdim=True).values - 1, scores.max(dim=1, keepdim=True).values
    for _ in range(30):
        middle = (low + high) / 2
        total = (scores - middle).clamp(min=0).sum(dim=1, keepdim=True)
        low, high = torch.where(total > 1, middle, low), torch.where(total > 1, high, middle)
        if (high - low).max() < 1e-5:
            break


def walks_are_accepted():
    x, accepted = numbers(2**20), 0
    for _ in range(5):
        proposed = x + 0.1 * torch.randn_like(x)
        log_ratio = (x.square().mean() - proposed.square().mean()) / 2
        if torch.rand((), device="cuda").log() < log_ratio:
            x = proposed
            accepted += 1
    print(accepted)
