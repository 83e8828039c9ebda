"""A torch that has none of NVIDIA's libraries beside it: the wheel alone."""

import os
from dataclasses import replace

import pytest

from pytest_membudget.devices.torch_build.installed import workers_torch


@pytest.fixture(scope="session")
def torch_folder(cuda_build):
    """The folder of the workers' torch."""
    return workers_torch(os.environ).folder / "torch"


@pytest.fixture(scope="session")
def build_alone(torch_alone):
    """The torch of ``torch_alone``."""
    return replace(workers_torch(os.environ), folder=torch_alone.parent, extensions=())


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
