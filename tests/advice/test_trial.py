"""Which trials a failure lists, and in which order."""

from pytest_membudget.advice.trial import Advice, Trial, savings_first


def listed(figures, figure=1000, missing=200):
    trials = [Trial(name, name, size) for name, size in figures.items()]
    return [trial.change for trial in savings_first(trials, figure, missing)]


def test_the_largest_saving_comes_first():
    assert listed({"small": 950, "large": 400, "middle": 900}) == ["large", "middle", "small"]


def test_what_saves_less_than_a_hundredth_of_what_is_missing_is_left_out():
    """200 are missing, so that 2 count and 1 does not."""
    assert listed({"counts": 998, "does not": 999}) == ["counts"]


def test_what_saves_nothing_or_takes_more_is_left_out():
    assert listed({"same": 1000, "more": 1100}, missing=0) == []


def test_the_json_is_read_again():
    advice = Advice(1000, 800, (Trial("fused", "AdamW(..., fused=True)", 700),), ("half_batch",))

    assert Advice.from_json(advice.to_json()) == advice
