"""Sizes of cuBLAS workspaces by card, release and setting (CublasHandlePool.cpp, CUDABlas.cpp)."""

import pytest

from pytest_membudget.errors import UsageMistake
from pytest_membudget.formulas.kernels.cublas import cublas_workspace_bytes

MIB = 2**20
SMALL, LARGE = 8_519_680, 33_554_432
RELEASES = [(2, 11), (2, 12), (2, 13), (2, 14), (2, 15)]


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("capability", [(7, 0), (7, 5), (8, 0), (8, 6), (8, 9)])
def test_older_cards_have_the_small_workspace_in_every_release(capability, release):
    assert cublas_workspace_bytes(capability, release) == SMALL


@pytest.mark.parametrize("release", RELEASES)
def test_hopper_has_the_large_workspace_in_every_release(release):
    assert cublas_workspace_bytes((9, 0), release) == LARGE


@pytest.mark.parametrize(
    ("capability", "sizes"),
    [
        ((10, 0), [SMALL, LARGE, LARGE, LARGE, LARGE]),
        ((12, 0), [SMALL, LARGE, LARGE, LARGE, LARGE]),
        ((11, 0), [SMALL, SMALL, SMALL, LARGE, LARGE]),
    ],
)
def test_newer_cards_have_the_large_workspace_since_a_release_that_knows_them(capability, sizes):
    assert [cublas_workspace_bytes(capability, release) for release in RELEASES] == sizes


@pytest.mark.parametrize(
    ("config", "size"),
    [(":4096:8", 32 * MIB), (":16:8", 128 * 1024), (":4096:2:16:8", SMALL), (":0:0", 0)],
)
def test_a_setting_is_pairs_of_kib_and_count(config, size):
    assert cublas_workspace_bytes((9, 0), (2, 13), config) == size


@pytest.mark.parametrize("config", ["4096:8", ":4096", ":4096:8:", ":a:b", ":4096:8 :16:8"])
def test_a_setting_that_cannot_be_read_is_refused_with_an_example(config):
    with pytest.raises(UsageMistake, match=f"CUBLAS_WORKSPACE_CONFIG='{config}' cannot be read.*':4096:8'"):
        cublas_workspace_bytes((9, 0), (2, 13), config)
