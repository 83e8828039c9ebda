"""Which knobs are named, in which order; the peaks are a made-up sum with plain parts."""

from pytest_membudget.formulas.job import Adapter, Degrees, Job, Loss, Optimizer
from pytest_membudget.formulas.knobs import knobs_for, largest_micro_batch, lines_of
from pytest_membudget.formulas.model import Attention, FeedForward, Layer, Model, Stack

LAYER = Layer(Attention(8, 8, 64), FeedForward(1024))
MODEL = Model("m", "LlamaForCausalLM", 1000, Stack(((LAYER, 4),), 512))


def peak(job):
    """Parameters 100, gradients 100, states 200, foreach's 100; a sequence 80 and 40 of logits."""
    gradients = 10 if job.optimizer.in_backward else 100
    states = {8: 50}.get(job.optimizer.bits, 200)
    lists = 100 if job.optimizer.implementation != "fused" and not job.optimizer.in_backward else 0
    activations = {"full": 20}.get(job.checkpointing.mode, 80) * job.micro_batch
    logits = (40 if job.loss.kind == "full" else 5) * job.micro_batch
    trained = 1 if job.adapter is None else 0
    shards = job.degrees.data_parallel_shard_degree
    kept = (100 + trained * (gradients + states)) / shards
    if job.offload:
        kept = 0
    return int(kept + max(lists * trained / shards, activations + logits))


def names(knobs):
    return [knob.name for knob in knobs]


def test_each_knob_has_its_figure():
    """100 + 100 + 200 + 2 x 120 = 640; the step's own lists, 100, are below the logits and activations."""
    job = Job(MODEL, micro_batch=2)
    found = {knob.name: knob.peak_bytes for knob in knobs_for(job, 600, peak)}

    assert found == {
        "loss in 8 chunks": 570,
        "8-bit optimizer states": 490,
        "optimizer step in backward": 550,
        "micro-batch 1, accumulated 2 times": 520,
        "full activation checkpointing": 520,
        "2 GPUs": 440,
        "CPU offload": 240,
        "LoRA of rank 16": 340,
    }


def test_those_that_cost_least_come_first_and_those_that_change_nothing_are_left_out():
    """fused saves nothing where the peak is not at the step."""
    found = names(knobs_for(Job(MODEL, micro_batch=2), 600, peak))

    assert found[0] == "loss in 8 chunks"
    assert found[-1] == "LoRA of rank 16"
    assert "fused=True" not in found
    assert "fused=True" in names(knobs_for(Job(MODEL, loss=Loss("chunked", 8)), 0, peak))


def test_where_no_single_one_fits_they_are_taken_together():
    """Logits 5 and 8-bit states and a micro-batch of one and checkpointing: 100 + 10 + 50 + 25 = 185."""
    job = Job(MODEL, micro_batch=2)
    last = knobs_for(job, 190, peak)[-1]

    assert last.fits
    assert last.peak_bytes <= 190
    assert last.name.startswith("loss in 8 chunks + 8-bit optimizer states")
    assert "LoRA" not in last.name


def test_nothing_is_proposed_that_is_there_already():
    job = Job(
        MODEL,
        optimizer=Optimizer(bits=8, implementation="fused"),
        loss=Loss("fused"),
        adapter=Adapter(8, ("q_proj",)),
        degrees=Degrees(),
    )
    found = names(knobs_for(job, 0, peak))

    assert not {"fused=True", "loss in 8 chunks", "8-bit optimizer states", "LoRA of rank 16"} & set(found)


def test_the_largest_micro_batch():
    """400 + 120 a sequence: five are 1,000."""
    assert largest_micro_batch(Job(MODEL), 1000, peak) == 5
    assert largest_micro_batch(Job(MODEL), 1119, peak) == 5
    assert largest_micro_batch(Job(MODEL), 1120, peak) == 6
    assert largest_micro_batch(Job(MODEL), 400, peak) == 0


def test_lines():
    [line] = lines_of(knobs_for(Job(MODEL), 600, lambda job: 5 if job.loss.kind == "chunked" else 7), str)

    assert line == "           5  fits  loss in 8 chunks  (about nothing)"
