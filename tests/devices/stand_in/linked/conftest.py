"""A torch that has none of NVIDIA's libraries beside it: the wheel alone."""

import importlib.util
import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def torch_folder(cuda_build):
    """The folder of this environment's torch."""
    return Path(importlib.util.find_spec("torch").origin).parent


@pytest.fixture(scope="session")
def torch_alone(torch_folder, tmp_path_factory):
    """A folder with links to this torch's files alone: the paths of its libraries lead nowhere."""
    site = tmp_path_factory.mktemp("site")
    _link_into(site / "torch", torch_folder)
    (site / "torch" / "lib").unlink()
    _link_into(site / "torch" / "lib", torch_folder / "lib")
    for found in torch_folder.parent.glob("torch*"):
        if not (site / found.name).exists():
            os.symlink(found, site / found.name)
    return site / "torch"


def _link_into(folder, source):
    folder.mkdir()
    for path in source.iterdir():
        os.symlink(path, folder / path.name)
