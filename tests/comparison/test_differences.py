"""What a run does otherwise than at the base: only what both reports show, with the growth's sign."""

from dataclasses import replace

import pytest

from pytest_membudget.comparison.findings import explained
from pytest_membudget.memory_report import HeldMemory, PhasePeak
from pytest_membudget.results.comparison import GROWN, Comparison
from tests.comparison.conftest import MIB, figure_of
from tests.comparison.conftest import holder as hold

#: So that no difference is too small for the growth, or the growth for a difference.
REST = hold(100 * MIB, "inputs", None, "train.py:1")


def figure(*holders, **more):
    return replace(figure_of(REST, *holders), **more)


def said(head, base):
    found = explained(Comparison(GROWN), head, base).differences
    return [(one.kind, one.head, one.base, *one.details) for one in found]


def weights(count, component="parameters", size=MIB, module="blocks.*.up.weight", **more):
    return hold(count * size, component, module, "train.py:3", count=count, **more)


def grown(*sizes, **more):
    rows = [hold(size * MIB, **more) for size in sizes]
    return {"held": HeldMemory(200 * MIB, (), HeldMemory(sum(row.bytes for row in rows), tuple(rows)))}


ALL = {"blocks.*": 1.0, "blocks.*.up": 1.0}
HALF, NONE = dict.fromkeys(ALL, 0.5), {}
#: The rest of a full list, with four more.
LARGE = [hold(2 * MIB, location=f"m.py:{line}") for line in range(100, 196)]
FEW, MANY = hold(8 * MIB), hold(64 * MIB)
COMPILED = hold(8 * MIB, operator="triton_poi_fused_silu_0")
HOST = {"host": figure_of(weights(8, "optimizer_states"))}
GRADIENTS = weights(8, "gradients")


def forward(*holders):
    one = figure_of(REST, *holders)
    return {
        "phase": "backward",
        "phases": (PhasePeak("forward", one.peak_bytes, one.components, one.holders),),
    }


CASES = {
    "checkpoints that are gone": (
        figure(FEW, recomputed=ALL), figure(MANY), [("recompute", "none", "all", "blocks.*")]
    ),
    "of half of the blocks": (
        figure(FEW, recomputed=ALL), figure(MANY, recomputed=HALF), [("recompute", "50%", "all", "blocks.*")]
    ),
    # attention is still computed again: the blocks as a whole are not what is kept
    "of a part of each block": (
        figure(FEW, recomputed={**ALL, "blocks.*.attention": 1.0}),
        figure(MANY, recomputed={"blocks.*.attention": 1.0}),
        [("recompute", "none", "all", "blocks.*", "blocks.*.up")],
    ),
    "of a function": (
        figure(FEW, recomputed={"gpt.py:32": 1.0}),
        figure(replace(MANY, module=None, location="gpt.py:32"), FEW),
        [("recompute", "none", "all", "gpt.py:32")],
    ),
    # in float32 the last module of a checkpoint casts no weight: nothing of it need run again
    "checkpoints of which the last module does not run again": (
        figure(FEW, recomputed={**ALL, "blocks.*.down": 1.0}), figure(MANY, recomputed=ALL), []
    ),
    "checkpoints as they were": (figure(FEW, recomputed=ALL), figure(MANY, recomputed=ALL), []),
    "checkpoints of modules that have other names": (
        figure(FEW, recomputed=ALL), figure(MANY, recomputed={"layers.*": 0.5}), []
    ),
    "checkpoints that are gone, of no more activations": (
        figure(FEW, recomputed=ALL), figure(FEW, weights(8, "gradients")), []
    ),
    "checkpoints that are new, where all takes less": (
        figure(MANY), figure(FEW, recomputed=ALL), [("recompute", "all", "none", "blocks.*")]
    ),
    "no longer compiled": (figure(COMPILED), figure(MANY), [("compiled", "none", "some")]),
    "little that is no longer compiled": (figure(replace(COMPILED, bytes=MIB)), figure(MANY), []),
    "compiled as it was": (figure(COMPILED), figure(COMPILED, MANY), []),
    "another dtype of all": (
        figure(weights(8, dtype="bfloat16"), hold(9 * MIB, module="head", dtype="bfloat16")),
        figure(weights(8, size=2 * MIB, dtype="float32"), hold(18 * MIB, module="head", dtype="float32")),
        [("dtype", "float32", "bfloat16", "activations", "parameters")],
    ),
    "another dtype of activations": (
        figure(hold(8 * MIB, module="head", dtype="bfloat16")),
        figure(hold(16 * MIB, module="head", dtype="float32")),
        [("dtype", "float32", "bfloat16", "activations of head")],
    ),
    "twice as much of the same dtype": (
        figure(hold(8 * MIB, dtype="float32")), figure(hold(16 * MIB, dtype="float32")), []
    ),
    "a dtype that one side does not know": (
        figure(hold(8 * MIB, dtype="float32")), figure(hold(16 * MIB)), []
    ),
    "trained, and frozen at the base": (
        figure(weights(4), weights(4, "frozen_parameters")),
        figure(weights(7), weights(1, "frozen_parameters"), MANY),
        [("trained", "7", "4", "blocks.*.up.weight")],
    ),
    "frozen, where something else has grown": (
        figure(weights(7), weights(1, "frozen_parameters")),
        figure(weights(4), weights(4, "frozen_parameters"), MANY),
        [],
    ),
    "one more layer": (
        figure(weights(8), weights(8, module="blocks.*.down.weight"), weights(1, module="head.weight")),
        figure(weights(9), weights(9, module="blocks.*.down.weight"), weights(1, module="head.weight")),
        [("count", "9", "8", "blocks.*")],
    ),
    # a list of 100 leaves out what is smaller than the last: two of the parameters, of another line
    "parameters that are not among the largest": (
        figure(weights(8), *LARGE, *(hold(2 * MIB, location=f"old.py:{line}") for line in (1, 2))),
        figure(weights(8), *LARGE, weights(2, operator="aten::clone"), hold(3 * MIB, location="new.py:1")),
        [],
    ),
    "a second layer": (
        figure(weights(1, module="blocks.0.up.weight")), figure(weights(2)),
        [("count", "2", "1", "blocks.*.up.weight")],
    ),
    "a wider layer": (
        figure(weights(8), weights(8, module="blocks.*.q.weight")),
        figure(weights(8, size=2 * MIB), weights(8, module="blocks.*.q.weight")),
        [("size", "16.0 MiB", "8.0 MiB", "blocks.*.up.weight")],
    ),
    "wider layers": (
        figure(weights(8), weights(8, module="blocks.*.up.bias")),
        figure(weights(8, size=2 * MIB), weights(8, size=2 * MIB, module="blocks.*.up.bias")),
        [("size", "32.0 MiB", "16.0 MiB", "blocks.*.up")],
    ),
    "a layer that is wider by little, and much else": (
        figure(weights(8)), figure(weights(8, size=MIB + 1024), MANY), []
    ),
    "states that were on the host": (
        figure(**HOST),
        figure(weights(8, "optimizer_states")),
        [("host", "none", "8.0 MiB", "optimizer_states")],
    ),
    "what the host holds less of by another reason": (
        figure(**HOST), figure(weights(1, "optimizer_states"), MANY), []
    ),
    "states that are on both": (figure(**HOST), figure(weights(8, "optimizer_states"), **HOST), []),
    "gradients in the next forward": (
        figure(FEW, **forward()),
        figure(FEW, GRADIENTS, **forward(GRADIENTS)),
        [("gradients", "8.0 MiB", "none")],
    ),
    "gradients in each forward, and more of them": (
        figure(FEW, **forward(hold(MIB, "gradients"))), figure(MANY, **forward(GRADIENTS)), []
    ),
    "gradients of a report without phases": (figure(FEW), figure(FEW, GRADIENTS, **forward(GRADIENTS)), []),
    "left behind by each step": (
        figure(**grown()), figure(FEW, **grown(8, module="head")), [("left", "8.0 MiB", "none", "head")]
    ),
    "workspaces that a step has left": (
        figure(**grown()), figure(FEW, **grown(8, component="workspaces")), []
    ),
    "a step that was not repeated": (figure(), figure(FEW, **grown(8)), []),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_the_run_does_otherwise(case):
    base, head, expected = CASES[case]

    assert said(head, base) == expected
