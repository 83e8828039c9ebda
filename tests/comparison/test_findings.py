"""Which rows explain a growth: few, with their lines, and none where nothing has grown."""

from dataclasses import replace

import pytest

from pytest_membudget.comparison.findings import MOST_ROWS, findings
from pytest_membudget.results.comparison import Change

MIB = 2**20


def told(rows):
    return [(row.bytes // MIB, row.component, row.location) for row in rows]


def test_a_new_holder_is_the_finding(figure, hold):
    same = hold(100 * MIB, "parameters", location="model.py:3")
    rows = findings(figure(same, hold(64 * MIB, location="model.py:9")), figure(same))
    assert rows == (Change(64 * MIB, "activations", "blocks.*", "model.py:9", None, "aten::mm"),)


def test_a_line_that_has_moved_is_the_same_line(figure, hold):
    before = hold(10 * MIB, location="model.py:9", source="x = self.up(x)")
    after = hold(30 * MIB, location="model.py:14", source="x = self.up(x)")
    [row] = findings(figure(after), figure(before))
    assert (row.bytes, row.location, row.base_location) == (20 * MIB, "model.py:14", "model.py:9")


def test_lines_that_have_moved_and_changed_nothing_are_silent_beside_one_that_has(figure, hold):
    def held(offset, grown):
        lines = [hold(40 * MIB, location=f"model.py:{n + offset}", source=f"line {n}") for n in range(5)]
        return figure(*lines, hold((8 + grown) * MIB, location=f"model.py:{50 + offset}", source="the one"))

    assert told(findings(held(7, 4), held(0, 0))) == [(4, "activations", "model.py:57")]


def test_the_same_text_on_several_lines_is_told_apart_by_order(figure, hold):
    def held(offset, sizes):
        return figure(
            *(
                hold(size * MIB, location=f"m.py:{n * 10 + offset}", source="x = f(x)")
                for n, size in enumerate(sizes, start=1)
            )
        )

    assert told(findings(held(3, [5, 5, 9]), held(0, [5, 5, 5]))) == [(4, "activations", "m.py:33")]


def test_a_file_with_another_name_is_the_same(figure, hold):
    before = hold(90 * MIB, location="old.py:9", source="x = self.up(x)")
    after = hold(90 * MIB, location="new/model.py:9", source="x = self.up(x)")
    grown = hold(6 * MIB, "gradients", location="new/model.py:20")
    assert told(findings(figure(after, grown), figure(before))) == [(6, "gradients", "new/model.py:20")]


def test_other_names_in_a_line_and_for_a_module_are_no_finding(figure, hold):
    before = hold(90 * MIB, module="proj", location="m.py:9", source="x = self.proj(x)")
    after = hold(90 * MIB, module="out", location="m.py:9", source="h = self.out(h)")
    grown = hold(6 * MIB, location="m.py:20", source="y = h * 2")
    assert told(findings(figure(after, grown), figure(before))) == [(6, "activations", "m.py:20")]


def test_the_same_text_in_two_files_is_told_apart_by_file(figure, hold):
    before = [hold(5 * MIB, location=place, source="x = f(x)") for place in ("b.py:10", "a.py:50")]
    after = [
        hold(9 * MIB, location="b.py:60", source="x = f(x)"),
        hold(5 * MIB, location="a.py:50", source="x = f(x)"),
    ]
    [row] = findings(figure(*after), figure(*before))
    assert (row.bytes, row.location, row.base_location) == (4 * MIB, "b.py:60", "b.py:10")


def test_the_same_text_of_two_modules_in_a_renamed_file_is_told_apart_by_module(figure, hold):
    before = [
        hold(5 * MIB, module=name, location=f"old.py:{line}", source="x = f(x)")
        for name, line in (("a", 10), ("b", 20))
    ]
    after = [
        hold(size * MIB, module=name, location=f"new.py:{line}", source="x = f(x)")
        for name, line, size in (("b", 10, 9), ("a", 20, 5))
    ]
    [row] = findings(figure(*after), figure(*before))
    assert (row.bytes, row.location, row.base_location) == (4 * MIB, "new.py:10", "old.py:20")


def test_a_renamed_line_is_not_taken_for_a_new_one_of_its_module(figure, hold):
    before = hold(90 * MIB, location="m.py:9", source="x = self.proj(x)")
    after = hold(90 * MIB, location="m.py:12", source="h = self.proj(h)")
    new = hold(6 * MIB, location="m.py:20", source="y = h * 2")
    assert told(findings(figure(after, new), figure(before))) == [(6, "activations", "m.py:20")]


def test_what_adds_little_is_not_told(figure, hold):
    head = figure(hold(100 * MIB), hold(3 * MIB, "gradients", location="m.py:7"))
    assert told(findings(head, figure())) == [(100, "activations", "model.py:10")]


def test_nothing_is_found_where_both_take_the_same(figure, hold):
    assert findings(figure(hold(9 * MIB, "gradients")), figure(hold(9 * MIB))) == ()


def test_what_the_holders_do_not_name_is_told_as_elsewhere(figure, hold):
    base = figure(hold(100 * MIB))
    head = figure(hold(110 * MIB), rest=50 * MIB)
    rows = findings(head, base)
    assert told(rows) == [(50, "rounding", None), (10, "activations", "model.py:10")]
    assert rows[0].module == "elsewhere"


def test_small_holders_beyond_the_list_are_elsewhere_in_their_component(figure, hold):
    base = figure(hold(10 * MIB))
    more = figure(hold(50 * MIB))
    [row] = findings(replace(more, holders=base.holders), base)
    assert (row.bytes, row.component, row.module) == (40 * MIB, "activations", "elsewhere")


def test_memory_that_has_moved_within_a_component_is_no_finding(figure, hold):
    before = [
        hold(32 * MIB, "workspaces", "a", "m.py:1", count=2),
        hold(32 * MIB, "workspaces", "b", "m.py:2"),
    ]
    after = [hold(32 * MIB, "workspaces", "c", "t.py:1"), hold(32 * MIB, "workspaces", "b", "m.py:2")]
    grown = hold(20 * MIB, location="m.py:5")
    assert told(findings(figure(*after, grown), figure(*before))) == [(20, "activations", "m.py:5")]


def test_many_lines_of_a_module_become_one_row_at_the_largest(figure, hold):
    same = hold(MIB, "parameters", location="m.py:1")
    many = [hold((10 + n) * MIB, "activations", "blocks.*", f"m.py:{100 + n}") for n in range(12)]
    assert told(findings(figure(same, *many), figure(same))) == [
        (sum(range(10, 22)), "activations", "m.py:111")
    ]


@pytest.mark.parametrize("count", [1, 7, 40])
def test_the_rows_are_few_and_add_up_to_nine_tenths(figure, hold, count):
    names = ("parameters", "gradients", "optimizer_states", "activations", "inputs", "temporaries", "buffers")
    base = figure(hold(MIB, "workspaces"))
    head = figure(
        hold(MIB, "workspaces"),
        *(
            hold((n + 1) * MIB, names[n % 7], f"m{n}", f"m.py:{n}", operator=f"aten::op{n}")
            for n in range(count)
        ),
    )
    rows = findings(head, base)
    growth = sum(range(1, count + 1)) * MIB
    assert 1 <= len(rows) <= MOST_ROWS
    assert abs(sum(row.bytes for row in rows) - growth) <= growth * 0.1


def test_what_has_shrunk_is_told_with_where_it_was(figure, hold):
    base = figure(hold(100 * MIB, "parameters"), hold(64 * MIB, location="m.py:9"))
    [row] = findings(figure(hold(100 * MIB, "parameters")), base)
    assert (row.bytes, row.location, row.base_location) == (-64 * MIB, None, "m.py:9")
