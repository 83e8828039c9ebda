"""Changes that reduce the memory of a test over its budget: the figures of runs with each of them.

The figure of a change is that of a test in which it is written.
"""

import pytest

from tests.plugin.bodies import source

pytestmark = pytest.mark.slow

MODELS = """
    import torch
    import torch.nn.functional as F
    from torch import nn
    from torch.utils.checkpoint import checkpoint

    from pytest_membudget.steps import linear_cross_entropy, optimizer_in_backward

    WIDTH, VOCABULARY = 512, 32000


    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x):
            return x + self.down(F.gelu(self.up(x)))


    class Decoder(nn.Module):
        def __init__(self, checkpoints, chunks):
            super().__init__()
            self.checkpoints, self.chunks = checkpoints, chunks
            self.embedding = nn.Embedding(VOCABULARY, WIDTH)
            self.blocks = nn.ModuleList([Block() for _ in range(3)])
            self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

        def forward(self, tokens):
            x = self.embedding(tokens)
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=False) if self.checkpoints else block(x)
            if self.chunks:
                return linear_cross_entropy(x, self.head.weight, tokens)
            return F.cross_entropy(self.head(x).view(-1, VOCABULARY), tokens.view(-1))


    def train_decoder(batch, checkpoints=False, chunks=False):
        model = Decoder(checkpoints, chunks).cuda()
        model(torch.randint(0, VOCABULARY, (batch, 1024), device="cuda")).backward()


    def train_layers(steps_in_backward=False, micro_batches=1, layers=4, width=4096, **options):
        '''Adam on layers of 64 MiB each, whose activations are next to nothing.'''
        model = nn.Sequential(*[nn.Linear(width, width, bias=False) for _ in range(layers)]).cuda()
        if steps_in_backward:
            optimizer_in_backward(model, torch.optim.Adam, **options)
        else:
            optimizer = torch.optim.Adam(model.parameters(), **options)
        for _ in range(micro_batches):
            model(torch.ones(8, width, device="cuda")).sum().backward()
        if not steps_in_backward:
            optimizer.step()
    """
HEAD = """\
import pytest
import torch
from models import train_decoder, train_layers

over, within = pytest.mark.mem_budget(gib=0.25), pytest.mark.mem_budget(gib=80)

"""
#: Their marks where they are over a budget of another kind than 0.25 GiB; those in which a change is written.
MARKS = {
    "decoder": "over\n@pytest.mark.parametrize('batch_size', [8])",
    "component": "pytest.mark.mem_budget(gib=8, components={'optimizer_states': 0.25})",
    "runs_out": "pytest.mark.mem_budget(gpu='T4')",
    "reserves": "pytest.mark.mem_budget(gib=0.5, metric='reserved')",
}
OVER = {
    "decoder": "train_decoder(batch_size)",
    "layers": "train_layers()",
    "accumulates": "train_layers(micro_batches=2)",
    "component": "train_layers()",
    "runs_out": "train_layers(layers=3, width=16384)",
    "reserves": (
        "grown = None\nfor number in range(1, 9):\n    del grown\n"
        "    grown = torch.empty(number * 32 * 2**20, dtype=torch.uint8, device='cuda')"
    ),
}
WRITTEN = {
    "decoder_written": "train_decoder(8)",
    "half_batch_written": "train_decoder(4)",
    "checkpointing_written": "train_decoder(8, checkpoints=True)",
    "chunked_cross_entropy_written": "train_decoder(8, chunks=True)",
    "layers_written": "train_layers()",
    "fused_written": "train_layers(fused=True)",
    "single_tensor_written": "train_layers(foreach=False)",
    "step_in_backward_written": "train_layers(steps_in_backward=True)",
}
TESTS = source(
    OVER | WRITTEN,
    HEAD,
    marks=dict.fromkeys(WRITTEN, "within") | MARKS,
    arguments={"decoder": "batch_size"},
    budget="over",
)
#: What is tried with a library is there where it is installed, and may be the largest saving.
WITHOUT_LIBRARIES = """
    import importlib.util

    find_spec = importlib.util.find_spec

    def find_others(name, *args):
        return None if name in ("bitsandbytes", "torchao") else find_spec(name, *args)

    importlib.util.find_spec = find_others
    """
MIB = 2**20


FILES = {"models.py": MODELS, "test_advice.py": TESTS, "conftest.py": WITHOUT_LIBRARIES}


def figure(run, name):
    return run.rows[name]["estimates"][0]["peak"]["allocated"]


#: What to write for a change begins or ends with it.
WRITTEN = {
    "chunked_cross_entropy": "linear_cross_entropy",
    "half_batch": "batch_size=",
    "checkpointing": "checkpoint",
    "step_in_backward": "optimizer_in_backward",
    "fused": "fused=True",
    "single_tensor": "foreach=False",
}


def trials(run, name):
    listed = run.rows[name]["advice"]["trials"].items()
    found = [(change, size) for write, size in listed for change in WRITTEN if WRITTEN[change] in write]
    assert len(found) == len(listed), listed
    return dict(found)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("test_decoder[8]", ["chunked_cross_entropy", "half_batch", "checkpointing"]),
        ("test_layers", ["step_in_backward", "fused", "single_tensor"]),
    ],
)
def test_the_figure_of_a_change_is_that_of_a_test_in_which_it_is_written(run, name, changes):
    found = trials(run, name)

    assert list(found) == sorted(changes, key=found.get)
    assert list(found) == changes, "the largest saving first"
    assert found == {change: figure(run, f"test_{change}_written") for change in changes}


def test_adam_without_what_a_change_takes_off(run):
    """Of 4 weights of 64 MiB foreach's square roots are a list of all 4.

    foreach=False has three of one weight's size: the root, its quotient, and the quotient of the weight
    before (``_single_tensor_adam``, torch/optim/adam.py, 2.13). A step in backward: one root, one gradient.
    """
    base, found = figure(run, "test_layers"), trials(run, "test_layers")

    assert base - found["single_tensor"] == pytest.approx((4 - 3) * 64 * MIB, abs=MIB)
    assert base - found["step_in_backward"] == pytest.approx((3 + 3) * 64 * MIB, abs=MIB)


def test_neither_the_verdict_nor_a_later_test_has_anything_of_a_trial(run):
    assert run.rows["test_layers"]["verdict"] == "over"
    assert figure(run, "test_layers") == figure(run, "test_layers_written")
    assert figure(run, "test_decoder[8]") == figure(run, "test_decoder_written")


def test_a_change_with_which_the_test_fails_is_not_listed(run):
    assert set(trials(run, "test_accumulates")) == {"fused", "single_tensor"}


def test_of_a_component_over_its_budget_the_components_figures_are_compared(run):
    advice = run.rows["test_component"]["advice"]

    assert (advice["bytes"], advice["limit_bytes"]) == (2 * 4 * 64 * MIB, 256 * MIB)
    assert advice["trials"] == {}


def test_what_runs_out_of_the_cards_memory_is_tried_on_one_without_a_limit(run):
    """3 weights of 1 GiB, their gradients, two states and a list of roots; and workspaces.

    foreach=False has as much as that list: three of one weight's size.
    """
    row = run.rows["test_runs_out"]

    assert row["estimates"][0]["peak"]["allocated"] < row["limit_bytes"]
    assert row["advice"]["bytes"] == pytest.approx(3 * 5 * 1024 * MIB, abs=80 * MIB)
    assert list(trials(run, "test_runs_out")) == ["step_in_backward", "fused"]


def test_a_tensor_that_grows_has_one_segment_where_segments_expand(run):
    """32, 64, ... and 256 MiB are a segment each; of an expandable one 256 MiB are mapped, in steps of 20."""
    advice = run.rows["test_reserves"]["advice"]
    [(write, size)] = advice["trials"].items()

    assert advice["bytes"] == 32 * 36 * MIB
    assert size == pytest.approx(256 * MIB, abs=20 * MIB)
    assert write == "PYTORCH_ALLOC_CONF=expandable_segments:True"
