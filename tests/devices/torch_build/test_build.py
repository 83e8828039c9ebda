"""Which build of torch a folder has, by its version.py."""

from pathlib import Path

import pytest

from pytest_membudget.devices.torch_build.build import TorchBuild, build_in, environments_torch

# as tools/generate_torch_version.py of PyTorch 2.13 writes it
TYPED = """from typing import Optional

__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip', 'rocm', 'xpu']
__version__ = '{version}'
debug = False
cuda: Optional[str] = {cuda}
git_version = 'cf30153c4c131c8164ee7798e5022d810682e2cb'
hip: Optional[str] = {hip}
"""
HERE = Path("site-packages")


@pytest.mark.parametrize(
    ("version", "cuda", "hip"),
    [("2.13.0+cu130", "13.0", None), ("2.13.0+cpu", None, None), ("2.13.0+rocm7.0", None, "7.0.51831")],
)
@pytest.mark.parametrize("types", [True, False])
def test_the_build_is_read_from_version_py(tmp_path, version, cuda, hip, types):
    text = TYPED.format(version=version, cuda=repr(cuda), hip=repr(hip))
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "version.py").write_text(text if types else text.replace(": Optional[str]", ""))

    assert build_in(tmp_path) == TorchBuild(tmp_path, version, cuda, hip)


def test_the_public_version_leaves_the_build_out():
    assert TorchBuild(HERE, "2.13.0+cpu").public_version == "2.13.0"
    assert TorchBuild(HERE, "2.15.0a0+gitcf30153").public_version == "2.15.0a0"


def test_a_folder_without_torch_and_one_of_unbuilt_sources_have_no_build(tmp_path):
    assert build_in(tmp_path) is None

    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "version.py").write_text("# written by setup.py\n")
    assert build_in(tmp_path) is None


def test_the_environments_torch_is_the_one_that_would_be_imported():
    torch = pytest.importorskip("torch")

    found = environments_torch()

    assert found is not None
    assert (found.version, found.cuda, found.hip) == (
        str(torch.__version__),
        torch.version.cuda,
        torch.version.hip,
    )
    assert found.folder == Path(torch.__file__).parents[1]
