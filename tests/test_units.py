"""Sizes in bytes and in words."""

import pytest

from pytest_membudget.units import GIB, KIB, MIB, bytes_of_gib, gib_text, parse_bytes


def test_the_units_are_powers_of_1024():
    assert (KIB, MIB, GIB) == (1024, 1_048_576, 1_073_741_824)


@pytest.mark.parametrize(
    ("gib", "size_bytes"),
    [
        (40, 42_949_672_960),
        (0.5, 536_870_912),
        (1 / 1024, 1_048_576),
        (0.1, 107_374_182),  # a fraction of a byte is dropped: 107374182.4
    ],
)
def test_gib_become_bytes(gib, size_bytes):
    assert bytes_of_gib(gib) == size_bytes


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (104_856, "102.4 KiB"),  # a tenth of a MiB is 104857.6 bytes
        (104_857, "0.1 MiB"),
        (25 * 1_048_576, "25.0 MiB"),
        (107_374_181, "102.4 MiB"),  # a tenth of a GiB is 107374182.4 bytes
        (107_374_182, "0.10 GiB"),
        (1_610_612_736, "1.50 GiB"),
        (42_949_672_960, "40.00 GiB"),
        (-512, "-512 B"),  # what was saved
        (-1_610_612_736, "-1.50 GiB"),
    ],
)
def test_a_size_has_the_unit_that_shows_its_digits(size_bytes, text):
    assert gib_text(size_bytes) == text


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("512 B", 512),
        ("1.5 KiB", 1536),
        ("256 MiB", 268_435_456),
        ("256MiB", 268_435_456),
        ("  2 GiB ", 2_147_483_648),
        ("0 B", 0),
    ],
)
def test_a_size_is_read_with_its_unit(text, size_bytes):
    assert parse_bytes(text) == size_bytes


@pytest.mark.parametrize(
    "text", ["256", "256 MB", "256 mib", "MiB", "-1 MiB", "1. MiB", "1e3 B", "", "1 MiB 2"]
)
def test_a_size_that_cannot_be_read_is_refused_with_the_text_and_the_units(text):
    with pytest.raises(ValueError, match="is not a size such as '256 MiB'") as refusal:
        parse_bytes(text)
    assert repr(text) in str(refusal.value)
    assert "(units: B, KiB, MiB, GiB)" in str(refusal.value)
