"""A test that reads what nobody knows is run again with other answers: its figure is the largest of them.

What they agree on is no caveat; what they do not is named, and fails under ``--membudget-strict``.
"""

import pytest

from pytest_membudget.devices.torch_parts import torch_release
from tests.plugin.bodies import source

MIB = 2**20
HEAD = """\
import concurrent.futures
import math
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid

import numpy
import pytest
import pytest_membudget
import torch
import torch.distributed as dist
from torch import nn

budget = pytest.mark.mem_budget(gib=1)
behind = pytest.mark.mem_budget(gib=0.1, metric="reserved")

def take(mib):
    return torch.empty(mib * 2**20, dtype=torch.uint8, device="cuda")

def take_if_small(draw):
    take(256 if draw < 0.01 or draw > 0.99 else 1)

def take_if(condition):
    take(256 if condition else 1)

def numbers():
    return torch.randn(1024, device="cuda").neg_()  # of what was just drawn it is sure that some are above 0

def used_by_another_stream():
    stream, x = torch.cuda.Stream(), take(64)
    with torch.cuda.stream(stream):
        torch.cuda._sleep(10**10)
    x.record_stream(stream)
    return stream

def below(size):
    take(300)
    torch.empty(size, dtype=torch.uint8, device="cuda")

def replicated(steps, reads):
    model = nn.parallel.DistributedDataParallel(nn.Linear(1024, 1024, bias=False).cuda())
    for _ in range(steps):
        loss = model(torch.randn(8, 1024, device="cuda")).sum()
        loss.backward()
        if reads:
            print(loss.item())

def reduced(steps):
    layer = nn.Linear(1024, 1024, bias=False, device="cuda")
    for _ in range(steps):
        layer(torch.ones(8, 1024, device="cuda")).sum().backward()
        own = torch.empty(512, 1024, device="cuda")
        dist.reduce_scatter_tensor(own, layer.weight.grad, async_op=True).get_future().wait()
        layer.weight.grad = None
        del own

def send(server):
    server.accept()[0].sendall(f"{time.time_ns() % 2**28}".encode())

"""
TWO_NUMBERS = "first = numbers().mean().item()\nsecond = numbers().mean().item()"
TWO_TRUTHS = "first = bool(numbers().sum() > 0)\nsecond = bool(numbers().sum() > 5)"
SAMPLED = """\
kept, unfinished = [], torch.ones(4, dtype=torch.long, device="cuda")
while not unfinished.max() == 0:
    kept.append(take(1))
    token = torch.multinomial(torch.randn(4, 100, device="cuda").softmax(-1), 1).squeeze(1)
    ends = torch.full((4,), len(kept) >= 8, dtype=torch.bool, device="cuda")
    unfinished &= ~(ends | torch.isin(token, torch.tensor([0], device="cuda")))"""
#: What each takes at the most, in MiB, where the answers decide it.
LARGEST = {
    "a_selection_of_nothing": (256, "x = numbers()\ntake_if(not len(x[x > 0]))"),
    "a_count_of_nothing": (256, "x = numbers()\ntake_if((x > 0).sum().item() == 0)"),
    "a_list_of_nothing": (256, "x = numbers()\ntake_if(not (x > 0).nonzero().flatten().tolist())"),
    "an_error_of_nothing": (
        256, "x = numbers()\ntry:\n    x[x > 0].max()\nexcept RuntimeError:\n    take_if(True)"
    ),
    "a_comparison": (256, "x = numbers()\ntake_if((x * x).sum() >= 0)"),
    "a_size_that_falls_with_a_draw": (512, "take(512 - torch.randint(0, 512, (1,), device='cuda').item())"),
    "a_likely_draw": (256, "take_if(torch.rand((), device='cuda') > 0.9)"),
    "an_unlikely_draw": (256, "take_if(torch.rand((), device='cuda') < 0.1)"),
    "a_likely_draw_beside_a_size": (
        256, "x = numbers()\nx[x > 0]\ntake_if(torch.rand((), device='cuda') > 0.9)"
    ),
    "a_draw_within_its_range": (256, "take_if(0.6 < torch.rand((), device='cuda') < 0.7)"),
    "a_draw_outside_of_it": (256, "take_if(not 0.4 < torch.rand((), device='cuda') < 0.6)"),
    "what_lengths_leave": (
        70,
        "lengths = torch.randint(1, 9, (8,), device='cuda')\n"
        "take(10 * (lengths.max() - lengths.min()).item())",
    ),
    "tokens_of_two_draws": (
        64,
        "a, b = (torch.randint(9, (2, 8), device='cuda') for _ in range(2))\n"
        "take(4 * (a != b).sum().item())",
    ),
    "one_of_many_labels": (256, "take_if(not (torch.randint(5, (9,), device='cuda') != 2).all())"),
    "until_a_token": (
        256,
        "kept, table = [], torch.randn(1000, 64, device='cuda')\n"
        "token = torch.zeros(1, dtype=torch.long, device='cuda')\n"
        "for _ in range(256):\n    token = (table[token] @ table.T).argmax(-1)\n    kept.append(take(1))\n"
        "    if token.item() == 1:\n        break",
    ),
    "until_the_last_token": (8, SAMPLED),
    "until_small": (
        400,
        "kept, rest = [], numbers()\nwhile rest.norm() > 1e-3 and len(kept) < 100:\n    kept.append(take(4))",
    ),
    "while_a_score_improves": (
        80,
        "kept, best, bad = [], 0, 0\nfor _ in range(20):\n    kept.append(take(4))\n"
        "    score = numbers().norm().item()\n    bad = 0 if score > best + 1e-2 else bad + 1\n"
        "    best = max(best, score)\n    if bad > 3:\n        break",
    ),
    "while_a_loss_improves": (
        80,
        "kept, best, bad = [], 1e9, 0\nfor _ in range(20):\n    kept.append(take(4))\n"
        "    loss = numbers().norm().item()\n    bad = 0 if loss < best - 1e-2 else bad + 1\n"
        "    best = min(best, loss)\n    if bad > 3:\n        break",
    ),
    "while_it_waits": (
        80,
        "kept = []\nwhile not (numbers() > 0).all():\n    if len(kept) < 10:\n        kept.append(take(8))",
    ),
    "until_some_are_accepted": (
        20,
        "found = []\nfor _ in range(20):\n    x = torch.randn(2**18, device='cuda')\n"
        "    found.append((x, x[x.abs() < 1.0]))\n    if sum(len(one) for _, one in found) >= 2**19:\n"
        "        break",
    ),
    "two_truths_at_a_line": (
        8,
        "kept = take(8)\ntorch.distributions.VonMises(*torch.ones(2, 9).cuda()).sample()",
    ),
    "after_a_check": (
        256,
        "x = numbers()\nif torch.isnan(x).any():\n    raise ValueError('not a number')\ntake_if(x.max() > 3)",
    ),
    "parts_of_what_is_drawn": (
        256,
        "labels = torch.randint(0, 1000, (64,), device='cuda')\n"
        "parts = [(labels // 500 == part).nonzero() for part in range(2)]\n"
        "if sum(map(len, parts)) != 64:\n    raise ValueError(parts)\ntake(256)",
    ),
    "after_an_assertion_that_lists_what_differs": (
        256,
        "x, y = numbers(), numbers()\nassert torch.allclose(x, y)\nassert torch.allclose(y, x)\n"
        "differ = (x - y).abs() > 1e-3\nplaces = differ.nonzero()\nif differ.sum().item() > 0:\n"
        "    raise AssertionError([x[tuple(place.tolist())].item() for place in places[:5]])\ntake(256)",
    ),
    "after_an_assertion": (256, "x = numbers()\nassert torch.allclose(x, x + 0)\ntake_if(x.max() > 3)"),
    "a_number_above": (256, "take_if(numbers().norm().item() > 5)"),
    "a_number_below": (256, "take_if(numbers().norm().item() < 0.01)"),
    "a_plain_number": (256, "take_if(float(numbers().norm()) > 5)"),
    "a_complex_number": (256, "take_if(abs(torch.view_as_complex(numbers().view(-1, 2))[0].item()) > 5)"),
    "a_number_that_is_not_finite": (256, "take_if(not math.isfinite(numbers().norm().item()))"),
    "a_check_that_all_is_finite": (256, "take_if(not torch.isfinite(numbers()).all())"),
    "a_check_for_what_is_no_number": (256, "take_if(numbers().isnan().sum() > 0)"),
    "a_count_of_what_is_no_number": (256, "take_if(torch.count_nonzero(numbers().isnan()))"),
    "a_count_of_many_that_are_no_numbers": (
        256, "take_if(torch.randn(2**21, device='cuda').isnan().count_nonzero().item())"
    ),
    "what_is_no_number": (256, "x = numbers()\ntake_if(len(x[x.isnan()]))"),
    "a_number_below_zero": (256, "take_if(numbers().mean().item() < 0)"),
    "a_loss_that_is_no_number": (
        256,
        "kept = [take_if(math.isnan(numbers().norm().item())) for step in range(2)]",
    ),
    "none_of_many": (256, "take_if(numbers().long().sum().item() == 0)"),
    "numbers_of_a_list": (256, "take_if(max(numbers().tolist()) > 5)"),
    "a_whole_number": (256, "take_if(numbers().long().sum().item() > 100)"),
    "the_mean_of_a_large_tensor_of_the_host": (256, "take_if(torch.randn(2**20).mean().item() > 5)"),
    "a_printed_tensor": (256, "take_if(float(str(numbers()).split('[')[1].split(',')[0]) > 5)"),
    "a_time": (
        256,
        "begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))\n"
        "begin.record()\nend.record()\ntake_if(begin.elapsed_time(end) > 5)",
    ),
    "ranks": (256, "take_if((numbers() > 0).any())"),
    "the_larger_of_two_first": (256, f"{TWO_NUMBERS}\ntake_if(first > second)"),
    "the_larger_of_two_second": (256, f"{TWO_NUMBERS}\ntake_if(first < second)"),
    "two_tokens_that_differ": (
        256, "first = numbers().argmax().item()\nsecond = numbers().argmax().item()\ntake_if(first != second)"
    ),
    "a_large_token": (256, "take_if(torch.randn(8, 1024, device='cuda').argmax(-1)[0].item() > 512)"),
    "one_of_four": (256, "[take, take, lambda _: take(256), take][numbers()[:4].argmax().item()](1)"),
    "the_place_in_an_order": (256, "take_if(numbers().sort().indices[0].item() > 700)"),
    "the_place_between_others": (
        256, "take_if(torch.searchsorted(torch.arange(1e3, device='cuda'), numbers()[0]).item() > 700)"
    ),
    "a_sampled_token": (
        256, "take_if(torch.multinomial(torch.softmax(numbers(), 0), 1).item() in range(700, 1020))"
    ),
    "tokens_together": (
        256, "take_if(torch.stack([numbers().argmax() for _ in range(4)]).tolist()[0] > 700)"
    ),
    "the_largest_place_of_the_host": (256, "take_if(numbers().cpu().argmax() > 700)"),
    "how_many_are_right": (
        256,
        "guesses = torch.randn(64, 8, device='cuda').argmax(-1)\n"
        "take_if((guesses == torch.zeros_like(guesses)).float().mean().item() > 0.9)",
    ),
    "how_many_are_right_on_the_host": (
        256,
        "labels = torch.randint(0, 8, (64,))\n"
        "guesses = torch.randn(64, 8, device='cuda').argmax(-1).cpu()\n"
        "take_if((guesses == labels).float().mean().item() > 0.9)",
    ),
    "kinds_of_tokens": (
        8 * 32, "kept = [take(32) for _ in {*torch.randn(64, 8, device='cuda').argmax(-1).tolist()}]"
    ),
    "labels_that_are_drawn": (
        8 * 32, "kept = [take(32) for _ in {*torch.randint(8, (64,), device='cuda').tolist()}]"
    ),
    "labels_that_are_drawn_one_by_one": (
        8 * 32,
        "kept = [take(32) for _ in {label.item() for label in torch.randint(8, (64,), device='cuda')}]",
    ),
    "no_label_of_many": (
        256, "take_if(len((torch.randint(10, (8,), device='cuda') == 7).nonzero()) == 0)"
    ),
    "labels_that_are_half_of_them": (
        256, "labels = torch.randint(10, (64,), device='cuda')\ntake_if(8 < len(labels[labels < 5]) < 56)"
    ),
    "labels_that_are_all_the_first": (
        256, "take_if(sum(torch.randint(0, 2, (8,), device='cuda').tolist()) == 0)"
    ),
    # no number lies beyond the bound after it
    "what_the_host_has_drawn_and_scaled": (
        256, "w = torch.empty(2**20).normal_()\nw.mul_(1e-9)\ntake_if(not (w > 3).any())"
    ),
    "a_loss_that_leaps": (
        256,
        "losses = []\nfor _ in range(3):\n    losses.append(numbers().norm().item())\n"
        "    take_if(losses[-1] > 3 * min(losses))",
    ),
    "how_many_agree": (
        256,
        "first, second = (torch.randn(64, 8, device='cuda').argmax(-1) for _ in range(2))\n"
        "take_if((first == second).sum().item() < 9)",
    ),
    "the_first_of_options": (256, "take_if(int(numbers().topk(4).indices.cpu()[1]) == 0)"),
    "the_last_of_two": (256, "take_if(torch.randn(8, 2, device='cuda').max(1).indices.tolist()[3] < 1)"),
    "lengths_that_differ": (
        256, "take_if(len({*(torch.randn(8, 64, device='cuda') > 0).sum(-1).tolist()}) > 1)"
    ),
    "the_first_of_two_truths": (256, f"{TWO_TRUTHS}\ntake_if(first and not second)"),
    "the_second_of_two_truths": (256, f"{TWO_TRUTHS}\ntake_if(second and not first)"),
    "numbers_of_a_list_that_differ": (256, "values = numbers().tolist()\ntake_if(values[0] < values[1])"),
    "tokens_of_a_list_that_differ": (256, "take_if(len({*numbers().long().tolist()}) > 1)"),
    "a_mask_of_both": (256, "take_if(len({*(numbers() > 0).tolist()}) > 1)"),
    "a_truth_that_changes": (
        256,
        "before = False\nfor _ in range(3):\n    now = bool(numbers().sum() > 0)\n"
        "    take_if(before and not now)\n    before = now",
    ),
    "a_number_behind_assertions": (
        256,
        "x = numbers()\nassert (x.exp() >= x).all()\nassert (x.abs() >= x).all()\n"
        "take_if(x.norm().item() > 5)",
    ),
    "a_number_behind_a_truth": (
        256, "if numbers().sum() > 0:\n    take_if(numbers().norm().item() > 5)"
    ),
    "a_truth_behind_a_truth": (
        256, "if numbers().sum() > 0:\n    take_if(not numbers().max() > 5)"
    ),
}  # fmt: skip
#: Its last backward may let go of what it kept a moment after its caller goes on.
PER_SAMPLE = """\
random.random()
model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)).cuda()
batch = numbers().view(4, 256)
parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}

def loss(parameters, batch):
    return torch.func.functional_call(model, parameters, (batch,)).sum()

for _ in range(3):
    gradients = torch.func.vmap(torch.func.grad(loss), (None, 0))(parameters, batch)
"""
#: Conditions by a single number that the host draws: of its lower end, and of its upper one.
LOWER = (
    "random.random() < 0.02", "random.uniform(0, 2) < 0.04", "random.randrange(100) == 0",
    "numpy.random.rand() < 0.02", "numpy.random.uniform(0, 1) < 0.02", "numpy.random.rand(1) < 0.02",
    "torch.rand(1) < 0.02", "random.getrandbits(7) == 0", "random.sample(range(100), 1) == [0]",
    "random.Random().random() < 0.02", "numpy.random.default_rng().random() < 0.02",
    "random.gauss(0, 1) < -2", "numpy.random.beta(0.4, 0.4) < 0.002", "torch.randn(1) < -2",
    "os.urandom(1)[0] < 5", "random.SystemRandom().random() < 0.02",
)  # fmt: skip
UPPER = (
    "random.random() > 0.98", "random.randint(0, 99) == 99", "random.choice([5, 99, 7] + [8] * 60) == 99",
    "numpy.random.random() > 0.98", "numpy.random.randint(0, 100) == 99", "numpy.random.choice(100) == 99",
    "torch.rand([]) > 0.98", "torch.randint(100, (1,)).item() == 99",
    "random.choices([7, 99], weights=[99, 1])[0] == 99", "numpy.random.choice(2, p=[0.98, 0.02])",
    "numpy.random.choice(['a', 'b'], 1, p=[0.98, 0.02])[0] == 'b'", "numpy.random.binomial(1, 0.02)",
    "torch.empty(1).bernoulli_(0.02).item()", "torch.empty(1).uniform_(0, 1) > 0.98",
    "torch.bernoulli(torch.full((3,), 0.02)).any()",
    "99 in random.choices(range(100), k=2)", "99 in random.sample(range(100), 2)",
    "'b' in random.sample(['a', 'b'], counts=[99, 1], k=2)", "random.Random().choice(range(100)) == 99",
    "numpy.random.default_rng().integers(100) == 99",
    "numpy.random.default_rng().integers(0, 99, endpoint=True) == 99",
    "numpy.random.default_rng().choice(100) == 99", "(numpy.random.default_rng().random(4) > 0.98).any()",
    "random.expovariate(1) > 4", "numpy.random.randn() > 2", "numpy.random.poisson(3) > 6",
    "torch.randn(()) > 2", "numpy.random.default_rng().normal(5, 1, 1) > 7",
    "random.Random().gauss(0, 1) > 2", "os.urandom(1)[0] > 250",
)  # fmt: skip
#: Rows of four, of which some hold in two runs with seeds alone.
LOWER_ROWS = ("torch.rand(4) < 0.5", "numpy.random.rand(4) < 0.5")
UPPER_ROWS = ("torch.empty(4).bernoulli_(0.5)", "numpy.random.uniform(0, 1, 4) > 0.5")
#: Four rows that a DataLoader's workers make: of 1 MiB, by some draws of more.
OF_WORKERS = """\
class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        draws = random.random() > 0.998, numpy.random.rand() < 0.002, torch.rand(()) > 0.998
        return torch.zeros(2**18 * (1 + sum(2**place * bool(one) for place, one in enumerate(draws))))

kept = [*torch.utils.data.DataLoader(Rows(), num_workers=2, generator=generator)]
kept = [row.cuda() for row in kept]
"""
#: Of each that holds 1 MiB is taken, four times.
BY_ONE = {
    "draws_of_every_kind": "taken = []\nfor _ in range(4):\n"
    + "".join(f"    if {one}:\n        taken.append(take(1))\n" for one in LOWER + UPPER)
    + "".join(
        f"for holds in {row}:\n    if holds:\n        taken.append(take(1))\n"
        for row in LOWER_ROWS + UPPER_ROWS
    ),
    "a_draw_beside_a_size": "taken = [take(1)]\nnumbers()[numbers() > 0]\nfor _ in range(4):\n"
    "    if random.random() > 0.98:\n        taken.append(take(1))",
    "draws_of_workers": f"random.seed(1)\ngenerator = None\n{OF_WORKERS}",
}
#: What is taken at the lower ends and at the upper ones, in MiB.
ENDS = {
    "draws_of_every_kind": (4 * len(LOWER + LOWER_ROWS), 4 * len(UPPER + UPPER_ROWS)),
    "a_draw_beside_a_size": (1, 1 + 4),
    "draws_of_workers": (4 * (1 + 2), 4 * (1 + 1 + 4)),
}
#: What the answers agree on: of the training it is no round number.
AGREED = {
    "until_a_flag": (8, "kept = take(8)\nwhile not (numbers() > 0).all():\n    pass"),
    "until_a_drawn_truth": (8, "kept = take(8)\nwhile 0.1 < torch.rand((), device='cuda') < 0.9:\n    pass"),
    "until_a_drawn_number": (
        8,
        "kept = take(8)\nwhile torch.randint(9, (), device='cuda').item() != 4:\n    pass",
    ),
    # kornia's ColorJiggle leaves out what a factor of 1 would not change
    "a_drawn_factor": (8, "if torch.empty(1, device='cuda').uniform_(0.8, 1.2).item() != 1:\n    take(8)"),
    "a_draw_with_a_seed": (8, "random.seed(5)\ntake(random.randint(8, 8))"),
    **{
        f"single_draws_with_a_seed_{number}": (
            8,
            f"take(8)\n{seed}\nfor _ in range(4):\n    take_if_small({draw})",
        )
        for number, (seed, draw) in enumerate(
            (
                ("random.seed(1)", "random.random()"),
                ("numpy.random.seed(2)", "numpy.random.rand()"),
                ("torch.manual_seed(0)", "torch.rand(1)"),
                ("torch.manual_seed(1)", "torch.rand(1)"),
                ("generator = random.Random()\ngenerator.seed(1)", "generator.random()"),
                ("random.random()\ngenerator = numpy.random.default_rng(1)", "generator.random()"),
                (
                    "random.random()\ngenerator = torch.Generator().manual_seed(1)",
                    "torch.rand(1, generator=generator)",
                ),
            )
        )
    },
    "a_loop_until_a_draw": (
        8,
        "take(8)\nwhile random.random() < 0.3:\n    pass\nwhile random.random() > 0.3:\n    pass",
    ),
    "workers_with_a_seed": (4, f"generator = None\ntorch.manual_seed(0)\n{OF_WORKERS}"),
    "workers_with_a_generator": (
        4,
        f"random.random()\ngenerator = torch.Generator().manual_seed(0)\n{OF_WORKERS}",
    ),
    "a_draw_that_is_refused": (
        8,
        "take(8)\nif not 1e-3 < random.random() < 0.999:\n    raise ValueError\nrandom.random()",
    ),
    "draws_that_have_no_share": (
        8,
        "take(8)\nif random.choices([7, 99], [1, 0]) == [99] or numpy.random.choice(2, p=[1.0, 0.0]):\n"
        "    take(256)\nlen([take(1) for _ in random.choices(range(9), k=4)])",
    ),
    "draws_of_a_recipe": (
        8,
        "kept = take(8)\nrandom.shuffle([*range(99)])\nrandom.sample(range(99), 9)\n"
        "random.betavariate(0.4, 0.4)\n"
        "random.gauss(0, 1)\nnumpy.random.beta(1, 1)\nx = torch.randn(4, 9)\n"
        "if random.random() < 0.5:\n    x = x.flip(0)\n"
        "first = random.randint(0, 4)\nx[:, first : first + 4].cuda()\nnn.Linear(8, 1).cuda()",
    ),
    "a_draw_that_is_copied": (
        8,
        "import copy, pickle\ntake(8)\n"
        "assert copy.deepcopy(random.random) is random.random\ncopy.deepcopy(numpy.random.normal)()\n"
        "pickle.loads(pickle.dumps(random.gauss))(0, 1)",
    ),
    # to look at each takes an hour
    "a_seed_of_many": (8, "take(8)\nrandom.randrange(2**40), random.choice(range(1, 2**40, 3))"),
    "a_row_of_bounds": (
        8,
        "low, high = numpy.random.uniform([0, 2], numpy.ones(2) * 3)\n"
        "whole, count = numpy.random.randint([3], [5]), numpy.random.binomial([1], [0.5])\n"
        "take(8 if 0 <= low <= 3 and 2 <= high <= 3 and 3 <= whole < 5 and 0 <= count <= 1 else 9)",
    ),
    "a_seed_that_decides_nothing": (8, "torch.Generator('cuda').seed()\ntake(8)"),
    # in a further run neither the folder nor the file of the first is there
    "a_folder_that_it_makes": (8, "take(8)\nif (numbers() > 0).any() or True:\n    os.mkdir('made')"),
    "a_file_that_it_would_load": (
        8,
        "kept = take(64 if os.path.exists('made.pt') else 8)\n"
        "if (numbers() > 0).any():\n    print()\n"
        "torch.save(kept, 'made.pt')",
    ),
    "an_exponential_that_takes_most": (None, "torch.linalg.matrix_exp(torch.randn(8, 8, device='cuda'))"),
    "how_many_are_below_the_peak_by_two_truths": (
        8,
        "take(8)\nprint(numbers().mean().item())\n"
        "first, second = [bool((numbers() > 0).any()) for _ in range(2)]\n"
        "len([take(1) for _ in range(1 if first or second else 2)])\n"
        "len([take(2) for _ in range(1 if first == second else 2)])",
    ),
    "labels": (
        8,
        "confusion = numpy.zeros((256, 8))\n"
        "for guess, label in zip(torch.randn(8, 256, device='cuda').argmax(-1).tolist(), range(8)):\n"
        "    confusion[guess, label] += 1\ntake(8)",
    ),
    **{f"gradients_per_sample_{number}": (None, PER_SAMPLE) for number in range(6)},
    # sizes that differ below the peak, and follow from truths alone
    "sizes_behind_a_truth": (
        8,
        "take(8)\nprint(numbers().norm().item())\nnumbers().repeat(5 if (numbers() > 0).any() else 6)",
    ),
    "an_assertion_that_holds": (
        8,
        "x = numbers()\nassert (x.exp() >= x).all()\ntake(8)\nprint(x.norm().item(), x.long().sum().item())",
    ),
    "places_that_differ": (8, "kept = [take(1) for _ in {*numbers().topk(8).indices.tolist()}]"),
    "training": (
        None,
        """\
model = nn.Linear(1024, 1024).cuda()
optimizer, scaler = torch.optim.AdamW(model.parameters()), torch.amp.GradScaler()
best, patience = float("inf"), 0
for epoch in range(4):
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(torch.randn(8, 1024, device="cuda")).square().mean()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    print(f"loss {loss.item():.3f}, norm {norm.item():.3f}", norm)
    with torch.no_grad():
        validation = model(torch.randn(8, 1024, device="cuda")).square().mean().item()
    patience = 0 if validation < best else patience + 1
    if validation < best:
        best = validation
        torch.save(model.state_dict(), tmp_path / "best.pt")
    if patience > 1:
        break
""",
    ),
}
#: What guards of a healthy run take: less where they find that something is wrong.
GUARDED = {
    "a_guard_that_skips": (
        8,
        "for step in range(2):\n    if math.isfinite(numbers().norm().item()):\n        take(8)",
    ),
    "a_check_that_skips": (8, "if torch.isfinite(numbers().norm()):\n    take(8)"),
    "a_guard_that_ends": (8, "if numbers().norm().item() < 0:\n    sys.exit(1)\ntake(8)"),
}
#: What is drawn, and what the figure depends on.
OF_BOTH = {
    "a_read_beside_a_draw": (["reads a bool"], "take_if(numbers().max() > 3)\nrandom.random()"),
    "a_read_and_a_draw": (
        ["reads a bool", "the host draws"], "take_if(numbers().max() > 3)\ntake(random.randint(300, 400))"
    ),
}  # fmt: skip
#: Of whom the host's random numbers are.
DRAWN = {
    "a_draw_of_python": ("random", "take(random.randint(1, 512))"),
    "a_draw_of_numpy": ("numpy", "take(int(numpy.random.randint(1, 512)))"),
    "draws_of_torch": ("torch", "take(min(torch.randint(1, 513, (8,)).tolist()))"),
    "a_draw_without_a_seed": (
        "generators without a seed", "take(int(numpy.random.default_rng().integers(1, 512)))"
    ),
    "bytes_of_the_system": (
        "os.urandom", "torch.empty(uuid.uuid4().int % 2**28, dtype=torch.uint8, device='cuda')"
    ),
    "a_time_and_a_machine": (
        "uuid.uuid1", "torch.empty(uuid.uuid1().time_low % 2**28, dtype=torch.uint8, device='cuda')"
    ),
    "an_unseeded_generator": (
        "random.Random()",
        "torch.empty(random.Random().randint(1, 2**28), dtype=torch.uint8, device='cuda')",
    ),
    "random_bytes_of_a_call": (
        "os.getrandom",
        "torch.empty(int.from_bytes(os.getrandom(4), 'big') % 2**28, dtype=torch.uint8, device='cuda')",
    ),
    "random_bytes_of_a_device": (
        "/dev/urandom",
        "with open('/dev/urandom', 'rb') as file:\n"
        "    torch.empty(int.from_bytes(file.read(4), 'big') % 2**28, dtype=torch.uint8, device='cuda')",
    ),
    "a_generator_of_torch_by_the_system": (
        "generators without a seed",
        "generator = torch.Generator()\ngenerator.seed()\n"
        "take(torch.randint(1, 512, (), generator=generator).item())",
    ),
    "the_seed_that_torch_chooses": (
        "generators without a seed",
        "torch.empty(torch.Generator().seed() % 2**28, dtype=torch.uint8, device='cuda')",
    ),
}  # fmt: skip
#: What is taken where no row chooses some of the options.
LEFT_OUT = {
    "a_code_that_nothing_uses": (
        256,
        "uses = torch.ones(64, device='cuda')\nchosen = torch.randn(512, 64, device='cuda').argmin(1)\n"
        "uses.lerp_(nn.functional.one_hot(chosen, 64).float().sum(0), 0.5)\ntake_if((uses < 1).any())",
    ),
    "codes_that_are_made_anew": (
        126,
        "uses = torch.bincount(torch.randn(512, 64, device='cuda').argmin(1), minlength=64)\n"
        "kept = torch.empty(len((uses == 0).nonzero()), 2**19, device='cuda')",
    ),
}
#: What comes from outside, by its name.
OUTSIDE = {
    "a_fifo": (
        "what comes from the FIFO numbers",
        "os.mkfifo(tmp_path / 'numbers')\nnumber = str(time.time_ns() % 2**28)\n"
        "sender = threading.Thread(target=(tmp_path / 'numbers').write_text, args=[number])\nsender.start()\n"
        "torch.empty(int((tmp_path / 'numbers').read_text()), dtype=torch.uint8, device='cuda')\n"
        "sender.join()",
    ),
    "a_socket": (
        "what comes from a socket",
        "with socket.create_server(('127.0.0.1', 0)) as server:\n"
        "    sender = threading.Thread(target=send, args=[server])\n    sender.start()\n"
        "    with socket.create_connection(server.getsockname()) as client:\n"
        "        torch.empty(int(client.recv(99)), dtype=torch.uint8, device='cuda')\n    sender.join()",
    ),
}
#: What is made of a number, and is no part of the peak.
BELOW = {
    "a_size_below_the_peak": "below(numbers().long().sum().item())",
    "a_size_of_a_float_below_the_peak": "below(math.floor(float(numbers().sum()) * 10))",
    "a_size_behind_a_truth": "take(300)\nif numbers().sum() > 0:\n    below(numbers().long().sum().item())",
    "a_size_next_to_sizes_behind_a_truth": (
        "numbers().repeat(5 if (numbers() > 0).any() else 6)\nbelow(numbers().long().sum().item())"
    ),
    "a_size_behind_an_assertion": (
        "assert (numbers().exp() >= 0).all()\nbelow(numbers().long().sum().item())"
    ),
    "as_many_as_a_number": (
        "take(300)\ncount = numbers().long().sum().item()\n"
        "len([torch.empty(5 * 2**18, dtype=torch.uint8, device='cuda') for _ in range(count)])"
    ),
}
BEHIND = {
    "a_block_of_a_stream_that_is_behind": "used_by_another_stream()\ntake(64)",
    "a_block_of_a_stream_that_was_waited_for": "used_by_another_stream().synchronize()\ntake(64)",
    "an_event_that_decides": (
        "stream = torch.cuda.Stream()\nwith torch.cuda.stream(stream):\n    torch.cuda._sleep(10**10)\n"
        "kept = take(16 if stream.record_event().query() else 128)"
    ),
}
#: What buckets take in the runs, in MiB: the first is as large as all gradients, and is made anew. The
#: streams of collectives may be behind.
REPLICAS = {
    "one_backward": ([4], "replicated(1, False)"),
    "two_backwards": ([4, 8], "replicated(2, False)"),
    "two_backwards_of_a_loss_that_is_read": ([4, 4, 4, 4, 8], "replicated(2, True)"),
}
OTHERS = {
    "futures_alone": "reduced(4)",
    "jobs_that_may_overlap": (
        "with concurrent.futures.ThreadPoolExecutor(2) as pool:\n"
        "    list(pool.map(lambda _: [take(8)] and None, range(2)))"
    ),
    "a_library_that_makes_a_name": (
        "with tempfile.TemporaryFile(), tempfile.TemporaryDirectory():\n    take(8)"
    ),
    "two_seconds": "take_if((numbers() > 0).any())\ntime.sleep(2)",
    "what_is_said": "with pytest_membudget.assume(value=True):\n    take_if((numbers() > 0).any())",
}
#: Of the host alone: checked where the budget does not limit it.
ON_HOST = dict.fromkeys(
    ("host_memory", "host_memory_of_the_budget"),
    "kept = take(8), torch.zeros((32 if numbers().norm().item() > 5 else 8) * 2**20)",
)
#: What a cycle alone holds that Python may have collected: checked where the budget does not limit it.
ON_HELD = dict.fromkeys(
    ("held_memory", "held_memory_of_the_budget"),
    "kept = [take(8)]\nif numbers().norm().item() > 5:\n    kept.append(kept)",
)
#: Of reserved memory alone, which is not what the budget limits.
ON_METRIC = {
    "reserved_memory": "sizes = [*range(1, 65)]\nrandom.shuffle(sizes)\nfor i in range(0, 64, 8):\n"
    "    x = take(8 * max(sizes[i : i + 8]))\n    y = take(4)\n    del x, y",
}
#: What equal peaks are made of: an activation in one run, none in another.
ON_COMPONENTS = dict.fromkeys(
    ("a_component", "a_component_of_the_budget"),
    "large = numbers().norm().item() > 5\ny = take(4).float().requires_grad_(large) * 2\n"
    "del y\ntake(2 if large else 1)",
)
#: A process that is started for one answer: the first run starts it, or another.
STARTED = {
    f"a_process_{name}": f"take(4)\nif {condition}:\n    subprocess.run([sys.executable, '-c', ''])"
    for name, condition in {"if_so": "numbers().sum() > 0", "if_not": "not numbers().sum() > 0"}.items()
}
#: Loops that the least sizes never end; and one that the largest never do.
REJECTED = {
    "until_enough_are_accepted": (
        "found = []\nwhile sum(len(one) for _, one in found) < 2**16:\n"
        "    x = torch.randn(2**15, device='cuda')\n    found.append((x, x[x.abs() < 1.0]))"
    ),
    "until_enough_fill_the_card": (
        "found = []\nwhile sum(len(one) for _, one in found) < 2**27:\n"
        "    x = torch.randn(2**26, device='cuda')\n    found.append((x, x[x.abs() < 1.0]))"
    ),
}
COUNTED = {
    "until_none_are_left": (1, "x = numbers()\nwhile len(x):\n    x = x[x > 0] - 1"),
    "until_enough_are_counted": (
        1,
        "count = 0\nwhile count < 2**20:\n    count += int((numbers() > 0).sum())",
    ),
}
BODIES = source(
    {
        name: body
        for name, (_, body) in (LARGEST | AGREED | GUARDED | DRAWN | LEFT_OUT | OUTSIDE | REPLICAS).items()
    }
    | {name: body for name, (_, body) in OF_BOTH.items()}
    | BY_ONE
    | REJECTED
    | {name: body for name, (_, body) in COUNTED.items()}
    | BELOW
    | BEHIND
    | OTHERS
    | ON_HOST
    | ON_HELD
    | ON_METRIC
    | ON_COMPONENTS
    | STARTED,
    HEAD,
    marks=dict.fromkeys(BEHIND, "behind")
    | dict.fromkeys(REJECTED, "pytest.mark.mem_budget(gpu='H100-80GB')")
    | dict.fromkeys([*REPLICAS, "futures_alone", "ranks"], "pytest.mark.mem_budget(gib=1, gpus=2)")
    | {"host_memory_of_the_budget": "pytest.mark.mem_budget(gib=1, host_gib=1)"}
    | {"held_memory_of_the_budget": "pytest.mark.mem_budget(gib=1, held_gib=0.1)"}
    | {"a_component_of_the_budget": "pytest.mark.mem_budget(gib=1, components={'inputs': 0.1})"},
    arguments={"training": "tmp_path", "a_fifo": "tmp_path"},
)

ARGS = ("--membudget", "--membudget-strict")
FILES = {"test_budgets.py": BODIES, "pyproject.toml": "[tool.membudget]\nadvice = 'off'\n"}


def estimate(run, name):
    return run.rows[f"test_{name}"]["estimates"][0]


@pytest.mark.parametrize("name", LARGEST)
def test_the_figure_is_that_of_the_answers_that_take_most(run, name):
    taken = estimate(run, name)["components"]["inputs"]

    most = LARGEST[name][0]
    # from torch 2.15 on the last product has a workspace, which is more than what comes after it
    least = most - (name == "until_a_token" and torch_release() >= (2, 15))
    assert least * MIB <= taken < (most + 3) * MIB
    assert {one["cause"] for one in estimate(run, name)["caveats"]} == {"depends"}
    assert run.outcomes[f"test_{name}"] == "failed"


@pytest.mark.parametrize("name", BY_ONE)
def test_single_draws_of_the_host_are_tried_at_both_ends(run, name):
    one = estimate(run, name)

    assert {*ENDS[name]} <= {size // MIB for size in (one["peak"]["allocated"], *one["variants"])}
    assert any(caveat["text"].startswith("random numbers that the host draws") for caveat in one["caveats"])
    assert run.outcomes[f"test_{name}"] == "failed"


@pytest.mark.parametrize("name", ["a_block_of_a_stream_that_is_behind", "an_event_that_decides"])
def test_work_of_a_stream_that_nobody_has_waited_for_may_not_be_done(run, name):
    one = estimate(run, name)

    assert one["peak"]["reserved"] == 128 * MIB
    assert [caveat["cause"] for caveat in one["caveats"]] == ["depends"]
    assert run.outcomes[f"test_{name}"] == "failed"
    assert "memory that another stream uses is free only when that is known to be done" in (
        run.text(f"test_{name}").replace("\n    ", " ")
    )


def test_a_body_that_waits_for_its_stream_is_run_once(run):
    one = estimate(run, "a_block_of_a_stream_that_was_waited_for")

    assert (one["peak"]["reserved"], one["caveats"], one["variants"]) == (64 * MIB, [], [])


@pytest.mark.parametrize("name", AGREED | GUARDED)
def test_what_the_answers_or_all_of_a_healthy_run_agree_on_is_no_caveat(run, name):
    one, peak = estimate(run, name), run.allocated(f"test_{name}")

    assert (one["caveats"], run.outcomes[f"test_{name}"]) == ([], "passed"), run.text(f"test_{name}")
    assert min(one["variants"]) < MIB if name in GUARDED else {*one["variants"]} == {peak}
    if (size := (AGREED | GUARDED)[name][0]) is not None:
        assert size * MIB <= peak < (size + 1) * MIB


@pytest.mark.parametrize("name", REPLICAS)
def test_when_nccls_watchdog_looks_is_no_caveat_and_the_figure_the_largest(run, name):
    one, sizes = estimate(run, name), REPLICAS[name][0]
    if torch_release() >= (2, 15):  # which waits for no watchdog
        sizes = [min(sizes)] * len(sizes)
    peak, most = one["peak"]["allocated"], max(sizes)

    assert (one["caveats"], run.outcomes[f"test_{name}"]) == ([], "passed"), run.text(f"test_{name}")
    assert one["components"]["collectives"] == most * MIB
    assert [peak - size for size in one["variants"]] == [(most - size) * MIB for size in sizes[1:]]


@pytest.mark.skipif(torch_release() >= (2, 15), reason="waits for no watchdog")
def test_that_steps_are_longer_than_the_watchdogs_interval_fails_strict(run):
    caveats = estimate(run, "futures_alone")["caveats"]

    assert [caveat["kind"] for caveat in caveats if "100 ms or longer" in caveat["text"]] == ["unchecked"]
    assert run.outcomes["test_futures_alone"] == "failed"


def test_that_jobs_of_a_pool_do_not_overlap_fails_strict(run):
    one = estimate(run, "jobs_that_may_overlap")

    assert [caveat["cause"] for caveat in one["caveats"]] == ["pool"]
    assert run.outcomes["test_jobs_that_may_overlap"] == "failed"


def test_the_seconds_are_those_of_all_runs(run):
    assert len(estimate(run, "two_seconds")["variants"]) == 1
    assert estimate(run, "two_seconds")["seconds"] >= 2 * 2


@pytest.mark.parametrize("name", ["while_it_waits", "two_truths_at_a_line"])
def test_a_loop_that_a_bound_has_ended_is_named_with_its_reads(run, name):
    [caveat] = estimate(run, name)["caveats"]

    assert "its loop, which waits for another answer, got one after 5,000 reads" in caveat["text"]


@pytest.mark.parametrize(
    ("name", "mib"), [(name, size) for name, size in zip(REJECTED, (0.5, 1280), strict=True)]
)
def test_a_loop_that_other_sizes_make_endless_is_unchecked(run, name, mib):
    """Not over its card: two rounds are enough where all are accepted."""
    one = estimate(run, name)

    [caveat] = [caveat for caveat in one["caveats"] if caveat["cause"] == "depends"]
    assert "with other answers the test has no figure: a loop that" in caveat["text"]
    assert mib * MIB < one["peak"]["allocated"] < 2 * mib * MIB
    assert "not checked" in run.text(f"test_{name}")


@pytest.mark.parametrize("name", COUNTED)
def test_a_loop_that_waits_for_a_size_ends(run, name):
    assert run.outcomes[f"test_{name}"] == "passed"
    assert estimate(run, name)["peak"]["allocated"] < COUNTED[name][0] * MIB


def test_the_name_of_a_temporary_file_is_no_draw(run):
    assert estimate(run, "a_library_that_makes_a_name")["variants"] == []


@pytest.mark.parametrize("name", STARTED)
def test_what_is_not_counted_in_one_run_is_named_though_all_take_the_same(run, name):
    one = estimate(run, name)

    assert {*one["variants"]} == {one["peak"]["allocated"]} == {4 * MIB}
    assert [caveat["cause"] for caveat in one["caveats"]] == ["process"]
    assert run.outcomes[f"test_{name}"] == "failed"


@pytest.mark.parametrize("name", BELOW)
def test_what_is_made_of_a_number_stays_unchecked_where_it_is_no_part_of_the_peak(run, name):
    """It may be any number, and so above the peak."""
    one = estimate(run, name)

    assert one["peak"]["allocated"] == 300 * MIB
    assert {caveat["cause"] for caveat in one["caveats"]} == {"size-read"}
    assert run.outcomes[f"test_{name}"] == "failed"


def test_what_is_drawn_is_the_same_in_every_session_and_with_xdist(run, session_of):
    pytest.importorskip("xdist")
    chosen = ("-n2", "-k", "draw_of or without_a_seed or flag or above")
    other = session_of({"test_budgets.py": BODIES}, *ARGS, *chosen)

    def told(one, name):
        row = one.rows[name]
        [figure] = row["estimates"]
        variants = figure["variants"]
        return figure["peak"], variants, figure["caveats"], one.outcomes[name]

    assert len(other.rows) == 5
    assert {name: told(other, name) for name in other.rows} == {name: told(run, name) for name in other.rows}


@pytest.mark.parametrize("name", DRAWN | OUTSIDE)
def test_what_is_drawn_or_sent_is_another_in_further_runs_and_named_where_the_figure_depends_on_it(run, name):
    [caveat] = estimate(run, name)["caveats"]
    said = OUTSIDE[name][0] if name in OUTSIDE else f"random numbers that the host draws ({DRAWN[name][0]})"

    assert caveat["text"].startswith(f"{said}; with other answers")
    assert run.outcomes[f"test_{name}"] == "failed"


@pytest.mark.parametrize("name", OF_BOTH)
def test_draws_are_named_where_others_alone_change_the_figure(run, name):
    texts = [one["text"] for one in estimate(run, name)["caveats"]]

    assert len(texts) == len(OF_BOTH[name][0])
    assert all(what in text for what, text in zip(OF_BOTH[name][0], texts, strict=True))


@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_options_that_nothing_chooses_take_is_the_worst_case(run, name):
    one = estimate(run, name)

    assert LEFT_OUT[name][0] * MIB <= one["peak"]["allocated"] < (LEFT_OUT[name][0] + 1) * MIB
    [caveat] = one["caveats"]
    assert caveat["cause"] == "worst-case"
    assert "taken to be the first in all rows: the worst case" in caveat["text"]


#: What depends besides the figure: its cause, what is said, and those that pass or fail by it.
BESIDES = {
    "host-depends": (
        "the figure is 8.0 MiB too, but host memory is 32.0 MiB to 0.12 GiB",
        ON_HOST,
        ("passed", "failed"),
    ),
    "held-depends": ("", ON_HELD, ("passed", "failed")),
    "metric-depends": ("but reserved memory is", ON_METRIC, ("passed",)),
    "component-depends": ("", ON_COMPONENTS, ("passed", "failed")),
}


@pytest.mark.parametrize("cause", BESIDES)
def test_what_depends_besides_the_figure_is_named_and_unchecked_where_the_budget_limits_it(run, cause):
    said, names, outcomes = BESIDES[cause]

    for name, outcome in zip(names, outcomes, strict=True):
        [caveat] = estimate(run, name)["caveats"]
        assert (caveat["cause"], run.outcomes[f"test_{name}"]) == (cause, outcome)
        assert said in caveat["text"]


def test_the_failure_says_by_how_much_and_what_to_write(run):
    text = run.text("test_a_comparison")

    assert "reads a bool value (once): taken to be False; with other answers the figure is" in text
    assert "pytest_membudget.assume(value=...)" in text


def test_what_is_said_is_not_varied(run):
    one = estimate(run, "what_is_said")

    assert one["variants"] == []
    assert [caveat["cause"] for caveat in one["caveats"]] == ["given"]
    assert 256 * MIB <= one["peak"]["allocated"] < 257 * MIB
