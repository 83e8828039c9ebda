"""A checkpoint of the stand-in's is told from what was downloaded."""

import zipfile

import pytest

from pytest_membudget.devices.stand_in.saving.safetensors_header import written_header
from pytest_membudget.devices.stand_in.saving.unknown_files import UNKNOWN_RECORD, has_unknown_values

TENSORS = {"a": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}}


def zipped(path, *names):
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, "data/0")
    return path.read_bytes()


@pytest.mark.parametrize("is_unknown", [False, True])
def test_files_with_unknown_values_are_marked(tmp_path, is_unknown):
    checkpoint, tensors, several = (tmp_path / name for name in ("a.pt", "a.safetensors", "a.distcp"))
    written = zipped(checkpoint, "a/data/0", *([f"a/{UNKNOWN_RECORD}"] if is_unknown else []))
    tensors.write_bytes(written_header(TENSORS, {"format": "pt"}, ["a"] if is_unknown else []))
    several.write_bytes(zipped(tmp_path / "first", "b/data/0") + written)

    assert [*map(has_unknown_values, (checkpoint, tensors, several))] == [is_unknown] * 3


@pytest.mark.parametrize("data", [b"", b"text\t", b"\x1f\x8b" + bytes(64)])
def test_other_files_are_not(tmp_path, data):
    (tmp_path / "a.bin").write_bytes(data)

    assert not has_unknown_values(tmp_path / "a.bin")
