"""Allowed growth: a share, a size, or both."""

import pytest

from pytest_membudget.budgets.budget import Growth, parse_growth


@pytest.mark.parametrize(
    ("text", "percent", "size_bytes"),
    [
        ("2%", 2.0, 0),
        ("0.5 %", 0.5, 0),
        ("0%", 0.0, 0),
        ("256 MiB", 0.0, 268_435_456),
        ("2% + 64 MiB", 2.0, 67_108_864),
        ("64 MiB+2%", 2.0, 67_108_864),
    ],
)
def test_growth_is_a_share_a_size_or_both_in_any_order(text, percent, size_bytes):
    assert parse_growth(text) == Growth(percent, size_bytes)


@pytest.mark.parametrize(
    ("growth", "base_bytes", "allowed_bytes"),
    [
        (Growth(percent=2.0), 1000, 20),
        (Growth(size_bytes=64), 1000, 64),
        (Growth(percent=2.0, size_bytes=64), 1000, 84),
        (Growth(), 1000, 0),
        (Growth(percent=150.0), 10, 15),
        (Growth(percent=2.0, size_bytes=64), 0, 64),  # nothing there before: only the size helps
        (Growth(percent=2.0), 99, 1),  # a fraction of a byte does not count: 1.98
    ],
)
def test_share_and_size_add_up(growth, base_bytes, allowed_bytes):
    assert growth.allowed_bytes(base_bytes) == allowed_bytes


@pytest.mark.parametrize("text", ["2% + 3%", "1 MiB + 2 MiB", "1% + 1 MiB + 1%"])
def test_two_shares_or_two_sizes_are_refused(text):
    with pytest.raises(ValueError, match="names two of a kind; write '2%'") as refusal:
        parse_growth(text)
    assert repr(text) in str(refusal.value)


@pytest.mark.parametrize("text", ["", "2", "two percent", "-2%", "2%%", "64 MB", "2% +", "2% - 64 MiB"])
def test_a_text_that_is_no_growth_is_refused_with_what_to_write(text):
    with pytest.raises(ValueError, match="is no growth; write '2%', '256 MiB' or '2% \\+ 64 MiB'") as refusal:
        parse_growth(text)
    assert repr(text) in str(refusal.value)
