"""What is not modelled and has a bound is held to the budget with it."""

from pytest_membudget.budgets.budget import Budget
from pytest_membudget.budgets.verdict import judge
from pytest_membudget.caveats import LIBRARY, OPERATOR, Caveat
from pytest_membudget.memory_report import MemoryReport, PeakBytes

MIB = 2**20
GIB = 2**30


def report(peak_bytes, *bounds, metric="allocated"):
    peak = PeakBytes(peak_bytes, peak_bytes, peak_bytes, peak_bytes)
    caveats = tuple(Caveat(OPERATOR, f"operator {number}", bound) for number, bound in enumerate(bounds))
    return MemoryReport("traced", metric, peak, {"inputs": peak_bytes}, caveats=caveats)


def test_a_bound_that_goes_over_is_over():
    verdict = judge(Budget(gib=1), [report(GIB - MIB, 3 * MIB)])

    assert (verdict.name, verdict.reason) == (
        "over",
        "2.0 MiB over its budget of 1 GiB, with the 3.0 MiB at most that are not modelled",
    )


def test_a_bound_that_just_fits_is_within():
    verdict = judge(Budget(gib=1), [report(GIB - MIB, MIB)])

    assert verdict.name == "within"
    assert verdict.reason.endswith("with the 1.0 MiB at most that are not modelled")


def test_kernels_run_one_after_the_other():
    assert report(GIB, MIB, 2 * MIB).bound_bytes == 2 * MIB
    assert report(GIB, MIB, 2 * MIB, metric="reserved").bound_bytes == 3 * MIB


def test_the_rank_with_the_largest_bound_decides():
    reports = [report(GIB - MIB), report(GIB - 2 * MIB, 3 * MIB)]

    assert judge(Budget(gib=1, gpus=2), reports).name == "over"


def test_without_a_bound_nothing_is_added():
    one = MemoryReport("traced", "allocated", PeakBytes(1, 1, 1, 1), {}, caveats=(Caveat(LIBRARY, "f"),))

    assert one.bound_bytes == 0
