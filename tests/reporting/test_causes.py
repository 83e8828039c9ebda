"""What explains a change, in words: each figure with what it is the figure of."""

import pytest

from pytest_membudget.memory_report import Holder
from pytest_membudget.reporting.causes import cause_text, change_lines, difference_texts
from pytest_membudget.results.comparison import Comparison, Finding, RunDifference

MIB = 2**20
GIB = 2**30


@pytest.mark.parametrize(
    ("finding", "said"),
    [
        (
            Finding(64 * MIB, "activations", "blocks.*", "m.py:9", "m.py:7", "aten::mm"),
            "+64.0 MiB activations of blocks.* at m.py:9 (was m.py:7) (aten::mm)",
        ),
        (
            Finding(3 * GIB, "activations", None, "m.py:9", count=37, largest_bytes=788 * MIB),
            "+3.00 GiB activations in 37 lines, the largest +0.77 GiB at m.py:9",
        ),
        (Finding(-64 * MIB, "workspaces", None, None, "m.py:7"), "-64.0 MiB workspaces no longer at m.py:7"),
        (Finding(9 * MIB, "activations", "elsewhere"), "+9.0 MiB activations outside the largest holders"),
        (Finding(9 * MIB, "rounding", "elsewhere"), "+9.0 MiB rounding"),
        (Finding(9 * MIB, "others", "elsewhere"), "+9.0 MiB in smaller changes"),
    ],
    ids=["a line", "many lines", "a line that is gone", "no line", "rounding", "the rest"],
)
def test_a_cause_is_named_with_its_line(finding, said):
    assert cause_text(finding, str) == said


@pytest.mark.parametrize(
    ("count", "largest_bytes", "said"),
    [
        (1, None, "0.75 GiB parameters at m.py:9"),
        (3, 256 * MIB, "3 x 0.25 GiB = 0.75 GiB parameters at m.py:9"),
        (3, 512 * MIB, "0.75 GiB parameters x3 at m.py:9"),
        (3, None, "0.75 GiB parameters x3 at m.py:9"),
    ],
)
def test_several_storages_are_a_product_where_all_are_of_one_size(count, largest_bytes, said):
    holder = Holder(768 * MIB, count, "parameters", None, "m.py:9", largest_bytes=largest_bytes)

    assert cause_text(holder, str) == said


INPUTS = "Inputs, and what is computed from them (batch, or length of sequences): "


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("inputs", "1.5 times as large"), f"{INPUTS}`1.5 times as large`."),
        (
            ("dtype", "float32", "float16", ("inputs",)),
            "Dtype of `inputs`: `float32` now, `float16` at the base.",
        ),
        (("size", "2", "1", tuple("abcde")), "Size of `a`, `b`, `c` and 2 more: `2` now, `1` at the base."),
        (("peak", "backward", "forward"), "Phase of the peak: `backward` now, `forward` at the base."),
        (("of a later version", "1", "2"), None),
    ],
)
def test_what_a_run_does_otherwise_is_a_sentence_each(given, said):
    differences = (RunDifference(*given),)
    found = difference_texts(Comparison("grown", differences=differences), lambda text: f"`{text}`")

    assert found == ([said] if said else [])


def test_what_a_run_does_otherwise_comes_before_rows():
    rows = (Finding(MIB, "activations", "up", "m.py:9"),)
    more = RunDifference("count", "9", "8", ("blocks.*",))

    assert change_lines(Comparison("grown", differences=(more,), findings=rows))[:2] == [
        "  Number of blocks.*: 9 now, 8 at the base.", "  +1.0 MiB  activations of up"
    ]  # fmt: skip


def test_who_called_a_line_is_said_where_others_have_too():
    details = "loss = model(x)", "train.py:20"
    held = Holder(64 * MIB, 1, "activations", "up", "m.py:9", "aten::mm", details=details)
    grown = Finding(64 * MIB, "activations", "up", "m.py:9", "m.py:7", "aten::mm", details=details)

    assert cause_text(held, str) == "64.0 MiB activations of up at m.py:9, called at train.py:20 (aten::mm)"
    assert cause_text(grown, str) == (
        "+64.0 MiB activations of up at m.py:9, called at train.py:20 (was m.py:7) (aten::mm)"
    )
