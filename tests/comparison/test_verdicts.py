"""What has become of a test since its base; figures are whole MiB, so shares are by hand."""

import json
from dataclasses import replace

import pytest

from pytest_membudget.comparison.base.exchange import Facts
from pytest_membudget.comparison.verdicts import compared
from pytest_membudget.memory_report import HeldMemory, PhasePeak
from pytest_membudget.results.comparison import Comparison, RunDifference

MIB = 2**20
GIB = 2**30
SAME = (Facts("2.13.0", ""), Facts("2.13.0", ""))


@pytest.fixture
def stands(row):
    """``stands(100, 110, max_growth="2%")``: the comparison of a test from 100 to 110 MiB."""

    def make(before, after, was="within", now="within", **budget):
        head = row(after * MIB, verdict=now, budget=budget)
        return compared(head, row(before * MIB, verdict=was), SAME)

    return make


ALLOWED = "takes 4.0 MiB (2.0%) more than at the base, which max_growth='2%' allows"
BEYOND = "takes 100.0 MiB (50.0%) more than at the base; max_growth='2%' allows less"
INHERITED = "over budget at the base too; takes what it took at the base"


@pytest.mark.parametrize(
    ("before", "after", "more", "status", "allowed", "reason"),
    [
        (100, 100, {"max_growth": "0%"}, "unchanged", None, ""),
        (200, 204, {"max_growth": "2%"}, "grown", None, ALLOWED),  # 200 + 2% = 204
        (200, 205, {"max_growth": "2%"}, "grown", False, None),
        (200, 300, {"max_growth": "2%"}, "grown", False, BEYOND),
        (200, 204, {"max_growth": "4 MiB"}, "grown", None, None),
        (200, 205, {"max_growth": "4 MiB"}, "grown", False, None),
        (200, 208, {"max_growth": "2% + 4 MiB"}, "grown", None, None),
        (200, 209, {"max_growth": "2% + 4 MiB"}, "grown", False, None),
        # nobody said how much it may grow: its budget alone limits it
        (200, 1000, {}, "grown", None, None),
        # over now and not at the base fails, even within the growth
        (200, 201, {"now": "over", "max_growth": "2%"}, "grown", None, None),
        (200, 200, {"now": "over"}, "unchanged", None, "its budget was larger at the base"),
        # what is over at the base too may only grow as far as is said
        (200, 200, {"was": "over", "now": "over"}, "unchanged", True, INHERITED),
        (200, 203, {"was": "over", "now": "over", "max_growth": "2%"}, "grown", True, None),
        (200, 203, {"was": "over", "now": "over", "max_growth": "1%"}, "grown", False, None),
        (200, 203, {"was": "over", "now": "over"}, "grown", False, None),
        (200, 100, {"was": "over", "now": "over"}, "shrunk", True, None),
        (200, 100, {"was": "over"}, "shrunk", None, None),
    ],
)
def test_what_has_become_of_a_test(stands, before, after, more, status, allowed, reason):
    comparison = stands(before, after, **more)

    assert (comparison.status, comparison.allowed) == (status, allowed)
    assert comparison.growth_bytes == (after - before) * MIB
    assert reason is None or comparison.reason == reason


def test_a_peak_that_has_moved_is_compared_in_its_phase_and_comes_back_from_json(row, figure, hold):
    """At the base 90 MiB in forward and 60 in backward; at the head 100 in backward: 10 more, 40 there."""

    def estimated(phase, other, *sizes):
        held = [
            figure(hold(size * MIB, location=name)) for name, size in zip((phase, other), sizes, strict=True)
        ]
        rest = PhasePeak(other, held[1].peak_bytes, held[1].components, held[1].holders)
        return row(0, estimates=(replace(held[0], phase=phase, phases=(rest,)),))

    found = compared(
        estimated("backward", "forward", 100, 90), estimated("forward", "backward", 90, 60), SAME
    )
    assert found.growth_bytes == 10 * MIB
    assert [(one.bytes, one.location) for one in found.findings] == [(40 * MIB, "backward")]
    assert found.differences == (
        RunDifference("peak", "backward", "forward"),
        RunDifference("compared", "100.0 MiB", "60.0 MiB", ("backward",)),
    )
    assert Comparison.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_parameters_of_another_size_are_kept_where_all_activations_grew_with_them(row, figure, hold):
    def estimated(tokens, lines):
        kept = [hold(tokens * MIB, location=f"m.py:{line}") for line in range(lines)]
        weight = hold((100 - tokens) * MIB, "parameters", "patches.weight", "m.py:99")
        return row(0, estimates=(figure(*kept, weight),))

    found = compared(estimated(12, 20), estimated(10, 20), SAME)
    assert found.differences[-1] == RunDifference("size", "88.0 MiB", "90.0 MiB", ("patches.weight",))
    assert Comparison.from_json(json.loads(json.dumps(found.to_json()))) == found
    # two lines are causes themselves
    assert compared(estimated(12, 2), estimated(10, 2), SAME).differences == ()


@pytest.mark.parametrize(
    ("before", "now", "status"), [(0, 64, "grown"), (100, 102, "unchanged"), (64, 0, "unchanged")]
)
def test_what_stays_may_not_grow_by_more_either(row, figure, hold, before, now, status):
    def estimated(mib):
        held = replace(figure(hold(200 * MIB)), held=HeldMemory(mib * MIB))
        return row(0, estimates=(held,), budget={"max_growth": "2%"})

    found = compared(estimated(now), estimated(before), SAME)

    assert found.status == status
    if status == "grown":
        text = "holds 64.0 MiB more than at the base when its body ends; max_growth='2%' allows less"
        assert found.reason == text


@pytest.mark.parametrize("verdict", ["within", "over"])
def test_a_test_that_the_base_has_not_is_new(row, verdict):
    comparison = compared(row(GIB, verdict=verdict), None, SAME)
    assert (comparison.status, comparison.allowed) == ("new", None)


# Not comparable


@pytest.mark.parametrize(
    ("budget", "facts", "said"),
    [
        ({"gpu": "A100-40GB"}, SAME[1], "gpu is 'A100-40GB', the head's is None"),
        ({"gpus": 2}, SAME[1], "gpus is 2, the head's is 1"),
        ({"metric": "reserved"}, SAME[1], "metric is 'reserved', the head's is 'allocated'"),
        ({}, Facts("2.12.0", ""), "the base's torch is 2.12.0, the head's is 2.13.0"),
        ({}, Facts("2.13.0", "expandable_segments:True"), "settings are 'expandable_segments:True'"),
    ],
)
def test_another_setting_is_not_comparable(row, budget, facts, said):
    comparison = compared(row(2 * GIB), row(GIB, budget=budget), (SAME[0], facts))
    assert comparison.status == "not comparable"
    assert said in comparison.reason
    assert comparison.growth_bytes == 0


def on(row, figure, hold, device, size=GIB):
    """A result estimated on ``device``; None: its report is from before reports named it."""
    return row(0, estimates=(figure(hold(size), device=device or ""),))


@pytest.mark.parametrize("before", ["fake", None])
def test_figures_of_a_device_that_earlier_versions_had_are_not_comparable(row, figure, hold, before):
    head, base = on(row, figure, hold, "stand-in", 2 * GIB), on(row, figure, hold, before)
    comparison = compared(head, base, SAME)

    assert (comparison.status, comparison.growth_bytes) == ("not comparable", 0)
    assert (
        comparison.reason == "the base was estimated by a version of pytest-membudget that had another device"
    )


@pytest.mark.parametrize(
    ("verdict", "said"), [("error", "could not be estimated: as it is"), ("skipped", "was skipped: as it is")]
)
def test_a_base_without_a_figure_is_not_comparable(row, verdict, said):
    comparison = compared(row(GIB), row(GIB, verdict=verdict, estimates=[]), SAME)
    assert (comparison.status, comparison.reason) == ("not comparable", f"at the base it {said}")


def test_trouble_with_the_base_is_reported(row):
    comparison = compared(row(GIB), None, SAME, trouble="it could not be collected")
    assert (comparison.status, comparison.reason) == ("not comparable", "it could not be collected")


def test_a_test_of_host_memory_alone_is_not_comparable(row, figure):
    nothing = row(0, estimates=[figure()])
    assert compared(nothing, nothing, SAME).reason == (
        "neither takes memory on a GPU, which is what is compared"
    )


def measured(row, figure, hold, size, card="", **changes):
    return row(size, measurements=[figure(hold(size), kind="measured", device=card)], **changes)


def test_measured_and_traced_are_not_compared_with_each_other(row, figure, hold):
    base = measured(row, figure, hold, GIB, estimates=[])
    comparison = compared(row(2 * GIB), base, SAME)
    assert comparison.reason == "the head's figure is traced, the base's is measured"


def test_measured_figures_of_one_card_are_compared_before_estimates(row, figure, hold):
    head = measured(row, figure, hold, 3 * GIB, "H100", estimates=[figure(hold(GIB))])
    base = measured(row, figure, hold, 2 * GIB, "H100", estimates=[figure(hold(GIB))])
    assert compared(head, base, SAME).growth_bytes == GIB


@pytest.mark.parametrize(
    ("card", "facts", "said"),
    [
        ("A100", SAME[1], "measured on A100, the head on H100"),
        ("H100", Facts("2.13.0", None), "does not say which torch and allocator settings"),
        ("H100", Facts(None, ""), "does not say which torch and allocator settings"),
    ],
)
def test_measured_figures_of_another_setting_are_not(row, figure, hold, card, facts, said):
    head = measured(row, figure, hold, 3 * GIB, "H100")
    base = measured(row, figure, hold, 2 * GIB, card)
    comparison = compared(head, base, (SAME[0], facts))
    assert comparison.status == "not comparable"
    assert said in comparison.reason


# Installed versions


def facts(**versions):
    return Facts("2.13.0", "", {name.replace("_", "-"): version for name, version in versions.items()})


def test_distributions_in_other_versions_are_named_first_those_that_own_the_lines(row, figure, hold):
    head = row(0, estimates=(figure(hold(2 * GIB, location="flash_attn/layers/rotary.py:7")),))
    base = row(0, estimates=(figure(hold(GIB, location="flash_attn/layers/rotary.py:7")),))
    now, before = facts(Flash_Attn="2", A="1", B="1", D="1"), facts(Flash_Attn="1", A="1", B="0", C="1")
    found = compared(head, base, (now, before)).distributions

    assert [f"{name} {change.text}" for name, change in found.items()] == [
        *("Flash-Attn 1 -> 2", "B 0 -> 1", "C 1 removed", "D 1 added"),
    ]


def test_another_torch_is_compared_where_the_base_is_another_environment(row):
    theirs = Facts("2.12.0", "", {"torch": "2.12.0", "b": "1", "c": "1"})
    ours = Facts("2.13.0", "", {"torch": "2.13.0", "b": "2", "a": "1"})

    assert compared(row(2 * GIB), row(GIB), (ours, theirs)).status == "not comparable"
    found = compared(row(2 * GIB), row(GIB), (ours, replace(theirs, is_environment=True)))
    assert found.growth_bytes == GIB
    assert [f"{name} {change.text}" for name, change in found.distributions.items()] == [
        "torch 2.12.0 -> 2.13.0", "b 1 -> 2", "a 1 added", "c 1 removed",
    ]  # fmt: skip


def test_no_versions_are_named_where_nothing_has_grown_or_the_base_does_not_say(row):
    assert compared(row(GIB), row(GIB), (facts(a="2"), facts(a="1"))).distributions == {}
    assert compared(row(GIB), row(MIB), (facts(a="2"), SAME[1])).distributions == {}
    assert compared(row(GIB), row(MIB), (facts(a="2"), facts(a="1"))).distributions != {}
