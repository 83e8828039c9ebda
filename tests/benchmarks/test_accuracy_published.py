"""The published figures: read, checked, and all of them with a source."""

from pathlib import Path

import pytest

from benchmarks import published_figures
from benchmarks.published_figures import EntryError, read_published

ENTRY = """
- id: one
  test: test_x.py::test_it
  source: some/repo@1 table.csv
  gpu: A100
  torch: 2.11.0
  grade: A
  unit: MiB
  measured: {allocated: 1.5, reserved: 2}
  explained: rounding
"""
FAMILIES = sorted(Path(published_figures.__file__).parent.glob("published/*.yaml"))


def read(tmp_path, text):
    file = tmp_path / "loss_heads.yaml"
    file.write_text(text)
    return read_published([file])


def test_figures_are_bytes_by_metric_and_the_file_is_the_family(tmp_path):
    (entry,) = read(tmp_path, ENTRY)

    assert entry.measured_bytes == {"allocated": 1.5 * 2**20, "reserved": 2 * 2**20}
    assert (entry.family, entry.test, entry.explained) == ("loss heads", "test_x.py::test_it", "rounding")


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("grade: A", "grad: A", "has grad; an entry may have"),
        ("unit: MiB", "unit: MB", "unit 'MB'"),
        ("  measured: {allocated: 1.5, reserved: 2}\n", "", "lacks measured"),
        ("  test: test_x.py::test_it\n", "", "either `test` or `not_recreated`"),
        ("grade: A", "not_recreated: no", "either `test` or `not_recreated`"),
    ],
)
def test_an_entry_that_cannot_be_read_is_named_with_its_file(tmp_path, before, after, said):
    with pytest.raises(EntryError, match=r"loss_heads\.yaml: 'one'") as caught:
        read(tmp_path, ENTRY.replace(before, after))

    assert said in str(caught.value)


def test_an_id_names_one_case(tmp_path):
    with pytest.raises(EntryError, match="'one' stands there twice"):
        read(tmp_path, ENTRY + ENTRY)


@pytest.mark.parametrize("file", FAMILIES, ids=lambda file: file.stem)
def test_every_published_figure_has_a_source_and_its_test_is_there(file):
    cases = Path(published_figures.__file__).parent / "cases"
    for entry in read_published([file]):
        assert entry.source, entry.id
        if entry.test:
            name, _, function = entry.test.partition("::")
            source = (cases / name).read_text()
            assert f"def {function}(" in source, entry.id
            assert all((entry.gpu, entry.torch, entry.grade)), entry.id


def test_no_two_families_share_an_id():
    entries = read_published(FAMILIES)

    assert len({entry.id for entry in entries}) == len(entries)
