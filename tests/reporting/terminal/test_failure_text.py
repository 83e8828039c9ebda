"""The text of a failed test: what stands in it adds up, and says what holds the memory."""

import re

import pytest

from pytest_membudget.reporting.terminal.failure import failure_text
from pytest_membudget.results.test_result import TestResult

MIB = 2**20
GIB = 2**30
UNITS = {"B": 1, "KiB": 2**10, "MiB": MIB, "GiB": GIB}


@pytest.fixture
def text(row, figure):
    """``text(changes)`` of a test over its budget whose figure has ``changes``."""

    def made(changes=None, *, width=80, **more):
        given = {"estimates": [figure(changes)], "rank": None, "host_bytes": None, "verdict": "over"}
        return failure_text(TestResult.from_json(row(**{**given, **more})), width)

    return made


def sizes_of(text):
    """Bytes by component, and the total, of the first table of ``text``."""
    rows = re.findall(r"^  (= )?(\w+) +([0-9.]+) (B|KiB|MiB|GiB)(?: +[0-9.]+%)?$", text, re.MULTILINE)
    found = {name: float(number) * UNITS[unit] for _, name, number, unit in rows}
    [total] = [name for sign, name, _, _ in rows if sign]
    return found, found.pop(total)


@pytest.mark.parametrize("metric", ["allocated", "reserved", "device"])
def test_every_component_is_listed_and_they_add_up_to_the_total(text, metric):
    beyond = {"cached": GIB} if metric != "allocated" else {}
    beyond |= {"context": GIB} if metric == "device" else {}
    held = {"parameters": 3 * GIB, "activations": GIB - 64 * MIB, "rounding": 64 * MIB, **beyond}

    found, total = sizes_of(text({"metric": metric, "components": held}))

    assert found.keys() == held.keys()
    assert total == {"allocated": 4, "reserved": 5, "device": 6}[metric] * GIB
    assert sum(found.values()) == pytest.approx(total, rel=0.002)  # two digits each


def test_an_entry_that_limits_nothing_itself_is_said_to(text):
    lines = text(location="train.membudget.yaml:2", budget={}).splitlines()

    assert "train.membudget.yaml:2: no limit" in lines


def test_a_test_without_a_mark_has_none_in_its_failure(text):
    said = " ".join(text(selected=True, budget={}).split())

    assert "tests/test_memory.py:12: no mark; --membudget=all or [tool.membudget] tests selects it" in said
    assert "mem_budget(" not in said


def test_a_small_rounding_is_listed_too(text):
    assert re.search(r"^  rounding +512 B +0\.0%$", text(), re.MULTILINE)


def test_changes_that_were_tried_are_listed_with_what_is_enough(text, advice):
    chunked = {"steps.linear_cross_entropy": 4 * GIB - 64 * MIB}
    more = {**advice, "trials": {**advice["trials"], **chunked, "half the batch": None}}

    assert text(advice=more).partition("What reduces it")[2].splitlines()[:5] == [
        " from 4.00 GiB (each change was run):",
        "      3.00 GiB   -1.00 GiB  AdamW(..., fused=True), within",
        "      3.94 GiB   -64.0 MiB  steps.linear_cross_entropy",
        "  steps is pytest_membudget.steps",
        "  Not tried, the time limit was reached: half the batch",
    ]
    assert "What reduces it" not in text(advice={**advice, "trials": {}})


def test_components_without_bytes_are_left_out(text):
    assert "buffers" not in text({"components.buffers": 0})


def test_it_begins_with_the_verdict_and_the_place_of_the_mark(text):
    lines = text().splitlines()

    assert lines[0] == "80% of its budget of 5 GiB"
    assert lines[1] == "tests/test_memory.py:12: mem_budget(gib=5)"


def test_what_was_taken_for_granted_and_what_is_not_modelled_is_listed(text):
    granted = {"cause": "read", "text": "a.py:1 reads a bool value"}
    said = text({"caveats": [granted, {"cause": "operator", "text": "a.py:2 aten::gru"}]})

    assert "a.py:1 reads a bool value" in said.partition("Taken for granted")[2]
    assert "a.py:2 aten::gru" in said.partition("Not modelled")[2]


@pytest.mark.parametrize(
    ("cause", "budget"),
    [("held-depends", {"held_gib": 1}), ("host-depends", {"host_gib": 1}), ("metric-depends", None)],
)
def test_nor_is_what_the_budget_does_not_limit(text, cause, budget):
    depends = {"caveats": [{"cause": cause, "text": "a.py:1 reads a bool value"}]}

    assert "reads a bool value" not in text(depends, budget={"gib": 5})
    if budget is not None:
        assert "reads a bool value" in text(depends, budget={"gib": 5, **budget})


def test_a_figure_without_holders_has_no_heading_for_them(text):
    assert "What holds it" in text()
    assert "What holds it" not in text({"holders": []})
    assert "\n\n\n" not in text({"holders": []})
    assert not text({"holders": []}).endswith("\n")


def block(text, title="What holds it:"):
    """The lines below ``title`` up to the next empty one."""
    return text.partition(f"{title}\n")[2].partition("\n\n")[0].splitlines()


def test_a_holder_has_its_line_and_the_source_of_it(text):
    named = {"holders.0.source": "self.w = nn.Parameter(empty)", "holders.0.largest_bytes": 3 * GIB // 2}

    assert block(text(named)) == [
        "  2 x 1.50 GiB = 3.00 GiB  parameters of layers.*.weight",
        "      src/model.py:41 (aten::empty): self.w = nn.Parameter(empty)",
        "  1.00 GiB  activations",
        "      no line of Python (aten::mm)",
    ]


def test_tensors_of_several_sizes_are_counted(text):
    assert block(text())[0] == "  3.00 GiB  parameters of layers.*.weight x2"


def test_a_line_that_holds_twice_has_its_source_once(text):
    same = {"location": "a.py:1", "source": "y = f(x)"}
    both = {f"holders.{n}.{name}": value for n in (0, 1) for name, value in same.items()}

    assert [line for line in block(text(both)) if "a.py:1" in line] == [
        "      a.py:1 (aten::empty): y = f(x)", "      a.py:1 (aten::mm)",
    ]  # fmt: skip


def kept(text, **counts):
    """The lines below *Still held*, of 1 MiB each: as many holders of a component as ``counts`` says."""
    rows = [
        {"bytes": MIB, "count": 1, "component": component, "location": f"a.py:{n}", "operator": "aten::mm"}
        for component, count in counts.items()
        for n in range(count)
    ]
    size_bytes = MIB * len(rows)
    said = text({"held": {"bytes": size_bytes, "holders": rows}})
    return block(said, f"Still held when the body ends, {len(rows)}.0 MiB:")


def test_what_is_still_held_adds_up(text):
    assert kept(text, inputs=7)[-1] == "  2.0 MiB  in 2 more"
    assert kept(text, inputs=1, workspaces=3)[-1] == "  3.0 MiB  in workspaces, which PyTorch keeps"
    assert kept(text, inputs=1) == ["  1.0 MiB  inputs", "      a.py:0 (aten::mm)"]


def test_what_rounding_alone_has_grown_by_is_not_said_to_be_held(text):
    held = {"bytes": 9 * MIB, "holders": [], "grown": {"bytes": 2 * MIB, "holders": []}}

    assert "After the last step" not in text({"held": held})


def test_a_growth_without_rows_has_its_size_alone(text):
    base = {"bytes": 4 * GIB - 512, "components": {}}
    since = {"status": "grown", "reason": "", "bytes": 4 * GIB, "base": base, "findings": []}

    assert "\nSince the base +512 B, from 4.00 GiB.\n" in text(comparison=since)


def test_a_component_over_its_budget_has_its_own_rows(text):
    said = text(budget={"gpus": 1, "components": {"activations": 0.5}}, limit_bytes=None)

    assert block(said, "What holds activations:")[0] == "  1.00 GiB  activations"
    assert "What holds it:" not in said


@pytest.mark.parametrize("width", [80, 120])
def test_long_names_and_lines_are_cut_to_the_width(text, width):
    long = {
        "holders.0.module": "model.layers.*." + "attention." * 12 + "weight",
        "holders.0.location": "transformers/models/llama/modeling_llama.py:164",
        "holders.0.source": "x = " + "f(" * 80,
        "holders.0.largest_bytes": 3 * GIB // 2,
        "holders.1.operator": f"triton_red_{'_log_softmax' * 12}_0",
    }
    said = text(long, width=width)
    first, place, source, *_ = block(said)

    assert max(map(len, (first, place, source))) == width
    assert max(map(len, said.splitlines())) == width
    assert "_softmax_0)" in said
    assert first.endswith(".weight")
    assert place.strip() == "transformers/models/llama/modeling_llama.py:164 (aten::empty)"
    assert source.endswith("…")


def test_what_is_taken_for_granted_is_folded_by_its_text(text):
    read = "reads a bool value (once): taken to be False"
    texts = [f"a.py:{n} {read}" for n in (1, 5, 9)] + [f"b.py:{n} {n} things" for n in range(20)]
    said = text({"caveats": [{"cause": "read", "text": one} for one in texts]})
    lines = block(said, "Taken for granted:")

    assert lines[0] == f"  a.py:1 and 2 more lines: {read}"
    assert lines[1] == "  b.py:0 0 things"
    assert lines[-1] == "  and 13 more; report.json has all"
    assert len(lines) == 9


def test_the_rank_is_named_where_there_are_several_and_the_metric_where_it_is_not_allocated(text):
    several = text({"rank": 3, "metric": "reserved", "components": {"parameters": 5 * GIB}},
                   budget={"gib": 5, "gpus": 8, "metric": "reserved"})  # fmt: skip

    assert "Peak memory:\n" in text()
    assert "= total " in text()
    assert "Peak memory of rank 3 of 8:\n" in several
    assert "= reserved " in several


def test_a_body_that_raised_has_its_traceback_and_no_components(text):
    said = text(
        verdict="error", raised=True, reason="KeyError in call", details="  a.py:3 in test_x\n    d[n]"
    )

    assert said.endswith("mem_budget(gib=5)\n\n  a.py:3 in test_x\n    d[n]")


def test_a_body_that_raised_after_values_were_assumed_names_them_and_assume(text):
    caveats = [
        {"cause": "read", "text": "a.py:2 reads an int64 value (once): taken to be 1"},
        {"cause": "method", "text": "by the stand-in"},
    ]
    said = text({"caveats": caveats}, verdict="error", raised=True, reason="KeyError in call")

    assert block(said, "Assumed of the data before it raised:") == [
        "  a.py:2 reads an int64 value (once): taken to be 1",
        "  if it should be another, say what is read: with",
        "    pytest_membudget.assume(value=...)",
    ]
