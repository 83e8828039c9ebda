"""Releases of libraries that are not there: those that torch's own metadata asks for."""

import pytest

from pytest_membudget.devices.stand_in.linked.release_numbers import ReleaseNumbers, release_numbers


@pytest.fixture
def torch(tmp_path):
    """``torch(requirement, ...)``: the folder of a torch whose wheel requires these."""

    def made(*requirements):
        info = tmp_path / "torch-2.13.0.dist-info"
        info.mkdir()
        lines = "".join(f"Requires-Dist: {requirement}\n" for requirement in requirements)
        (info / "METADATA").write_text(f"Metadata-Version: 2.4\nName: torch\nVersion: 2.13.0\n{lines}")
        (tmp_path / "torch").mkdir()
        return tmp_path / "torch"

    return made


@pytest.mark.parametrize(
    ("requirements", "numbers"),
    [
        # torch 2.11.0+cu128's METADATA, the rows that matter: each library
        (
            [
                "nvidia-cublas-cu12==12.8.4.1",
                "nvidia-cudnn-cu12==9.19.0.56",
                "nvidia-nccl-cu12==2.28.9",
                "sympy>=1",
            ],
            ReleaseNumbers(cublas=120804, nccl=22809, cudnn=91900),
        ),
        # torch 2.13.0's: a toolkit; PyPI's cuda-toolkit 13.0.3 requires nvidia-cublas 13.1.1.3
        (
            [
                "cuda-toolkit[cublas,cudart]==13.0.3",
                "nvidia-cudnn-cu13==9.20.0.48",
                "nvidia-nccl-cu13==2.29.7",
            ],
            ReleaseNumbers(cublas=130101, nccl=22907, cudnn=92000),
        ),
    ],
)
def test_a_wheel_requires_each_library_or_a_toolkit(torch, requirements, numbers):
    assert (
        release_numbers(torch(*(f'{one}; platform_system == "Linux"' for one in requirements)), {}) == numbers
    )


@pytest.mark.parametrize(
    ("toolkit", "cublas"),
    [("13.0.2", 130100), ("13.2.1", 130400), ("13.2.2", 130401), ("13.9.1", 130901), ("12.9.1", 120901)],
)
def test_a_toolkit_has_the_cublas_of_its_release_or_one_that_is_not_older_than_known_ones(
    torch, toolkit, cublas
):
    """nvidia-cublas 13.1.0.3, 13.4.0.1, 13.4.1.3 are what PyPI's cuda-toolkit 13.0.2, 13.2.1, 13.2.2 want."""
    assert release_numbers(torch(f"cuda-toolkit[cublas]=={toolkit}"), {}).cublas == cublas


def test_a_torch_without_metadata_says_nothing(tmp_path):
    assert release_numbers(tmp_path / "torch", {}) == ReleaseNumbers(0, 0, 0)


def test_an_installed_library_says_its_own_release(torch_folder):
    installed = {path.name: path for path in torch_folder.parent.glob("nvidia/*/lib/lib*.so.*")}
    if not any(name.startswith("libcublasLt.so.") for name in installed):
        pytest.skip("cuBLASLt is not installed")

    assert (
        release_numbers(torch_folder, installed)
        == release_numbers(torch_folder, {})
        != ReleaseNumbers(0, 0, 0)
    )
