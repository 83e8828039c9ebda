"""The speed page and the ratios on it, from figures that are given."""

from benchmarks.speed import page_of
from benchmarks.speed_cases import Figure, in_turn
from benchmarks.start_up import StartUp


def test_a_figure_above_its_target_is_in_bold():
    figures = [Figure("a ratio", 1.234, 1.15, "so"), Figure("a time", 3.21, 5.0, "thus", "s")]

    page = page_of(figures, "On a machine.")

    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if "|" in line
    ]
    assert ["a ratio", "**1.23**", "at most 1.15", "so"] in rows
    assert ["a time", "3.2 s", "at most 5.0 s", "thus"] in rows
    assert "On a machine." in page


def test_runs_are_in_turn_and_the_median_counts():
    order = []
    seconds = {"one": iter((3.0, 1.0, 9.0)), "other": iter((2.0, 2.0, 5.0))}

    def run(name):
        order.append(name)
        return next(seconds[name])

    assert in_turn(3, {name: lambda name=name: run(name) for name in seconds}) == {"one": 3.0, "other": 2.0}
    assert order == ["one", "other"] * 3


def test_start_up_is_held_against_both_halves_of_the_runs_without():
    found = StartUp({"without": [1.0, 1.0], "with": [1.2, 1.2], "without again": [1.4, 1.4]})

    assert round(found.ratio, 6) == 1.0
    assert round(found.noise, 6) == 1.4
