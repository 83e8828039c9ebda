"""From the ledger to a MemoryReport."""

import pytest

from pytest_membudget import components
from pytest_membudget.caveats import HOW, LIBRARY, Caveat
from pytest_membudget.memory_report import Holder
from pytest_membudget.tracking.ledger import Ledger
from pytest_membudget.tracking.record import Phase, Record
from pytest_membudget.tracking.summary import memory_report

MIB = 1_048_576
GIB = 1024 * MIB
CONTEXT = 100 * MIB
METRICS = ["allocated", "reserved", "device"]


class Story:
    """A test's run as the ledger sees it, one event after the other."""

    def __init__(self):
        self.ledger = Ledger()

    def born(self, size_bytes, operator="aten::empty", phase=Phase.FORWARD, block=None, reserves=0, **known):
        """``reserves``: of a new segment, in which the storage lies; else at the given ``address``."""
        record = Record(size_bytes, operator, phase, block or size_bytes)
        if reserves:
            record.address = self.ledger.now * GIB
            self.ledger.reserve(record.address, reserves)
        record.file, record.line = known.pop("at", (None, 0))
        for name, value in known.items():
            setattr(record, name, value)
        self.ledger.born(id(record), record)
        return record

    def died(self, record):
        self.ledger.died(id(record))

    def report(self, metric="allocated", **changes):
        arguments = {"metric": metric, "context_bytes": CONTEXT, "root": "/home/ada/project", **changes}
        return memory_report(self.ledger, **arguments)


@pytest.fixture
def story():
    return Story()


@pytest.fixture
def step(story):
    """A step whose allocated peak, 24 MiB and 2560 bytes, comes before its reserved peak, 40 MiB."""
    story.born(1000, block=1024, reserves=2 * MIB, role=components.PARAMETERS, trained=True)
    story.born(100, block=512, address=1024, from_inputs=True)
    first = story.born(12 * MIB, reserves=12 * MIB)  # there when backward begins
    story.ledger.mark()
    second = story.born(12 * MIB, reserves=12 * MIB, phase=Phase.BACKWARD)
    story.born(
        600, block=1024, address=1536, role=components.GRADIENTS, phase=Phase.BACKWARD
    )  # here allocated peaks
    story.died(first)
    story.died(second)
    story.born(14 * MIB, reserves=14 * MIB, phase=Phase.OPTIMIZER)
    return story


def without_zeros(held):
    return {name: size_bytes for name, size_bytes in held.items() if size_bytes}


def test_the_components_of_allocated_are_those_alive_at_its_peak_and_the_rounding(step):
    assert without_zeros(step.report("allocated").components) == {
        "parameters": 1000,
        "gradients": 600,
        "activations": 12 * MIB,
        "inputs": 100,
        "temporaries": 12 * MIB,
        "rounding": 24 + 424 + 412,  # 1024 - 1000, 1024 - 600, 512 - 100
    }


def test_the_components_of_reserved_are_those_alive_at_its_own_peak_and_what_is_cached(step):
    assert without_zeros(step.report("reserved").components) == {
        "parameters": 1000,
        "gradients": 600,
        "inputs": 100,
        "temporaries": 14 * MIB,
        "rounding": 860,
        "cached": 24 * MIB + 2 * MIB - 2560,  # both 12 MiB, and what 2560 bytes leave of 2 MiB
    }


def test_the_components_of_device_are_those_of_reserved_and_the_context(step):
    reserved, device = step.report("reserved").components, step.report("device").components
    assert device == {**reserved, "context": 100 * MIB}


def test_what_nccl_takes_is_a_component_of_device_alone(step):
    reserved, device = (step.report(metric, nccl_bytes=7 * MIB) for metric in ("reserved", "device"))
    assert device.components == {**reserved.components, "context": 100 * MIB, "nccl": 7 * MIB}
    assert (reserved.peak_bytes, device.peak_bytes) == (40 * MIB, (40 + 100 + 7) * MIB)
    assert sum(device.components.values()) == device.peak_bytes


@pytest.mark.parametrize(
    ("metric", "peak_bytes"),
    [("allocated", 24 * MIB + 2560), ("reserved", 40 * MIB), ("device", 140 * MIB)],
)
def test_the_components_add_up_to_the_peak_of_the_metric_exactly(step, metric, peak_bytes):
    report = step.report(metric)
    assert report.peak_bytes == sum(report.components.values()) == peak_bytes
    assert report.peak == {"allocated": 24 * MIB + 2560, "reserved": 40 * MIB, "device": 140 * MIB}


@pytest.mark.parametrize("metric", METRICS)
def test_every_component_is_reported_in_the_order_of_reports(step, metric):
    assert tuple(step.report(metric).components) == components.COMPONENTS


@pytest.mark.parametrize(("metric", "total_bytes"), [("allocated", 0), ("reserved", 0), ("device", CONTEXT)])
def test_a_test_that_allocated_nothing_has_nothing_but_the_context(story, metric, total_bytes):
    report = story.report(metric)
    assert report.peak_bytes == total_bytes
    assert sum(report.components.values()) == total_bytes
    assert report.holders == ()


def test_a_report_says_that_it_was_traced_for_which_metric_and_what_it_took_for_granted(story):
    report = story.report(
        "reserved", caveats=[Caveat(HOW, "a"), Caveat(HOW, "b"), Caveat(LIBRARY, "c")], seconds=1.5004
    )
    assert (report.kind, report.metric, report.rank, report.host) == ("traced", "reserved", 0, None)
    assert (report.assumptions, report.not_modelled, report.seconds) == (("a", "b"), ("c",), 1.5)


# Holders


def test_a_holder_says_what_where_and_by_which_operator(story):
    story.born(
        1000,
        "aten::mm",
        role=components.BUFFERS,
        module="layers.0.attention",
        at=("/home/ada/project/src/model.py", 41),
    )
    assert story.report().holders == (
        Holder(1000, 1, "buffers", "layers.0.attention", "src/model.py:41", "aten::mm", phase="forward"),
    )


def test_a_holder_without_a_place_says_none(story):
    story.born(1000)
    assert story.report().holders == (
        Holder(1000, 1, "temporaries", None, None, "aten::empty", phase="forward"),
    )


def test_what_a_line_has_rounded_up_has_its_row_from_more_than_a_block_may_keep(story):
    """Large blocks keep rests of up to 1 MiB (kSmallSize); pinned memory is rounded to powers of two."""
    story.born(18 * MIB, "pinned memory", block=32 * MIB, at=("/home/ada/project/a.py", 7))
    story.born(11 * MIB, block=12 * MIB, at=("/home/ada/project/a.py", 8))

    report = story.report()
    rows = [(row.bytes // MIB, row.component, row.location, row.operator) for row in report.holders]
    assert rows == [
        (18, "temporaries", "a.py:7", "pinned memory"),
        (14, "rounding", "a.py:7", "pinned memory"),
        (11, "temporaries", "a.py:8", "aten::empty"),
    ]
    assert report.components["rounding"] == 15 * MIB


def test_layers_that_differ_in_their_number_alone_are_one_holder(story):
    for layer in range(3):
        story.born(1000, role=components.PARAMETERS, name=f"layers.{layer}.weight")
    [holder] = story.report().holders
    assert holder == Holder(
        3000, 3, "parameters", "layers.*.weight", None, "aten::empty", largest_bytes=1000, phase="forward"
    )


SAME = {"operator": "aten::mm", "module": "body", "at": ("/home/ada/project/a.py", 1)}
WEIGHT = {"role": components.PARAMETERS}
#: The storages, bytes and what is known of each; the holders: module, bytes, those of the largest, how many.
GROUPS = {
    "a parameter's name goes before its module": (
        [(100, {**WEIGHT, "name": "head.weight", "module": "Llama"})], [("head.weight", 100, None, 1)]
    ),
    "of several sizes there is the largest": (
        [(size, {**WEIGHT, "name": f"layers.{layer}.weight"}) for layer, size in enumerate((10, 10, 40))],
        [("layers.*.weight", 60, 40, 3)],
    ),
    "every number of a path counts as one": (
        [(100, {"module": "0.blocks.11"}), (100, {"module": "1.blocks.7"})], [("*.blocks.*", 200, 100, 2)]
    ),
    "several storages of one layer keep its number": (
        2 * [(100, {"module": "layers.0.attention"})], [("layers.0.attention", 200, 100, 2)]
    ),
    "a number inside a name keeps apart": (
        [(200, {"module": "conv1"}), (100, {"module": "conv2"})],
        [("conv1", 200, None, 1), ("conv2", 100, None, 1)],
    ),
    "the largest comes first": (
        [(size, {"module": module}) for module, size in (("a", 100), ("b", 300), ("c", 200))],
        [("b", 300, None, 1), ("c", 200, None, 1), ("a", 100, None, 1)],
    ),
    **{
        f"{word} keeps apart": (
            [(20, SAME), (10, SAME | other)], [("body", 20, None, 1), (module, 10, None, 1)]
        )
        for word, module, other in (
            ("a component", "body", {"role": components.BUFFERS}),
            ("an operator", "body", {"operator": "aten::add"}),
            ("a module", "head", {"module": "head"}),
            ("a line", "body", {"at": ("/home/ada/project/a.py", 2)}),
        )
    },
}  # fmt: skip


@pytest.mark.parametrize("name", GROUPS)
def test_storages_that_are_for_the_same_are_one_holder(story, name):
    storages, holders = GROUPS[name]
    for size_bytes, known in storages:
        story.born(size_bytes, **known)

    found = [(one.module, one.bytes, one.largest_bytes, one.count) for one in story.report().holders]
    assert found == holders


def test_a_line_that_several_have_called_has_a_row_for_each(story):
    for caller in (20, 20, 31):
        story.born(MIB, at=("/home/ada/project/model.py", 7), caller=("/home/ada/project/train.py", caller))
    story.born(MIB, at=("/home/ada/project/model.py", 9), caller=("/home/ada/project/train.py", 20))

    assert [(one.location, one.count, one.details) for one in story.report().holders] == [
        ("model.py:7", 2, ("", "train.py:20")), ("model.py:7", 1, ("", "train.py:31")),
        ("model.py:9", 1, ("",)),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("phase", "root_call", "says"),
    [(Phase.RECOMPUTE, 1, "recompute"), (Phase.RECOMPUTE, None, "backward"), (Phase.FORWARD, 1, "forward")],
    ids=["a checkpoint", "a double backward", "a forward"],
)
def test_modules_that_run_again_in_a_backward_are_a_checkpoint(story, phase, root_call, says):
    story.born(MIB, phase=phase, root_call=root_call)

    [holder] = story.report().holders
    assert holder.phase == says


def test_a_bucket_of_several_gradients_is_named_by_what_their_parameters_share(story):
    bucket, one = story.born(MIB), story.born(MIB)
    for name in (
        "layers.0.norm.bias",
        "module.layers.0.norm.bias",
        "module.layers.0.up.weight",
        "module.layers.7.up.bias",
    ):
        bucket.note_gradient(None, name, is_parameter=True)
    for name in ("up.weight", "module.up.weight", "up.weight"):
        one.note_gradient(None, name, is_parameter=True)

    assert [held.module for held in story.report().holders] == ["module.layers", "module.up.weight"]


def test_the_hundred_largest_holders_are_reported_and_the_others_count_in_their_components(story):
    sizes = {f"module_{letter * count}": count * 100 for letter in "abcd" for count in range(1, 27)}
    for module, size_bytes in sizes.items():
        story.born(size_bytes, module=module)

    report = story.report()

    assert [holder.bytes for holder in report.holders] == sorted(sizes.values(), reverse=True)[:100]
    assert report.components["temporaries"] == 4 * 100 * 26 * 27 // 2


@pytest.mark.parametrize(
    ("metric", "sizes"),
    [
        ("allocated", [12 * MIB, 12 * MIB, 1000, 600, 100]),
        ("reserved", [24 * MIB, 14 * MIB, 2 * MIB - 2560, 1000, 600, 100]),
    ],
)
def test_holders_are_those_alive_at_the_peak_of_the_metric(step, metric, sizes):
    assert [holder.bytes for holder in step.report(metric).holders] == sizes


# What is cached


def cached(report):
    return [holder for holder in report.holders if holder.component == "cached"]


def test_cached_memory_has_rows_by_whom_it_was_reserved_for_and_who_lives_there(step):
    report = step.report("reserved")

    assert cached(report) == [
        Holder(24 * MIB, 2, "cached", operator="aten::empty", largest_bytes=12 * MIB, phase="forward"),
        Holder(2 * MIB - 2560, 1, "cached", operator="aten::empty", phase="forward", split_by="aten::empty"),
    ]
    assert sum(holder.bytes for holder in cached(report)) == report.components["cached"]


def test_cached_memory_is_told_with_line_and_module(story):
    story.born(4 * MIB, reserves=20 * MIB, module="layers.1.mlp", at=("/home/ada/project/model.py", 5))
    story.died(next(iter(story.ledger.live.values())))
    story.born(3 * MIB, address=0, name="head.weight", at=("/home/ada/project/a.py", 2))
    story.born(30 * MIB, reserves=30 * MIB)  # here reserved peaks

    assert cached(story.report("reserved")) == [
        Holder(
            17 * MIB,
            1,
            "cached",
            "layers.1.mlp",
            "model.py:5",
            "aten::empty",
            phase="forward",
            split_by="head.weight, a.py:2",
        )
    ]


def test_pages_that_are_given_back_are_not_cached(story):
    story.born(4 * MIB, reserves=40 * MIB, module="first")
    story.ledger.reserve(20 * MIB, -20 * MIB)  # the later page
    story.born(2 * MIB, reserves=30 * MIB, module="second")
    report = story.report("reserved")

    assert report.peak["reserved"] == 50 * MIB
    assert [(holder.module, holder.bytes) for holder in cached(report)] == [
        ("second", 28 * MIB),
        ("first", 16 * MIB),
    ]


def test_a_block_over_two_pages_counts_in_both(story):
    story.ledger.reserve(0, 20 * MIB)
    story.ledger.reserve(20 * MIB, 20 * MIB)
    story.born(30 * MIB, address=0)

    assert [holder.bytes for holder in cached(story.report("reserved"))] == [10 * MIB]


# Beside a device's own peaks


def measured(allocated_bytes, reserved_bytes=40 * MIB):
    return {"allocated": allocated_bytes, "reserved": reserved_bytes, "device": reserved_bytes + CONTEXT}


def test_what_the_device_had_more_than_the_ledger_is_reported_as_unattributed(step):
    report = step.report(kind="measured", peaks=measured(24 * MIB + 2560 + 5000))

    assert (report.kind, report.peak_bytes) == ("measured", 24 * MIB + 2560 + 5000)
    assert report.components["unattributed"] == 5000
    assert report.components["temporaries"] == 12 * MIB
    assert sum(report.components.values()) == report.peak_bytes


def test_what_the_device_had_less_is_taken_off_the_rounding(step):
    report = step.report(kind="measured", peaks=measured(24 * MIB + 2560 - 512))

    assert report.components["unattributed"] == 0
    assert report.components["rounding"] == 24 + 424 + 412 - 512
    assert sum(report.components.values()) == report.peak_bytes


# The peaks of the other phases


def test_each_phase_has_its_own_peak(step):
    report = step.report()
    forward, optimizer = report.phases

    assert (report.phase, forward.phase, optimizer.phase) == ("backward", "forward", "optimizer")
    assert forward.peak_bytes == 12 * MIB + 1024 + 512
    assert without_zeros(forward.components) == {
        "parameters": 1000,
        "activations": 12 * MIB,
        "inputs": 100,
        "rounding": 24 + 412,
    }
    assert optimizer.peak_bytes == 14 * MIB + 2560
    assert [holder.bytes for holder in optimizer.holders] == [14 * MIB, 1000, 600, 100]
    assert [holder.phase for holder in optimizer.holders] == ["optimizer", "forward", "backward", "forward"]


def test_recomputation_belongs_to_its_backward(story):
    story.born(512, "aten::mm")
    story.born(512, "aten::add", phase=Phase.RECOMPUTE, root_call=1)
    report = story.report()

    assert (report.phase, report.peak_bytes) == ("backward", 1024)
    assert [(one.phase, one.peak_bytes) for one in report.phases] == [("forward", 512)]
    assert [holder.phase for holder in report.holders] == ["forward", "recompute"]


@pytest.mark.parametrize("metric", ["reserved", "device"])
def test_reserved_memory_is_of_no_phase(step, metric):
    report = step.report(metric)
    assert (report.phase, report.phases) == ("", ())
