"""A test whose code Triton compiles is kept by the session that compiles it."""

import pytest

from tests.cache import test_unchanged_tests as unchanged

kept, project = unchanged.kept, unchanged.project

pytestmark = pytest.mark.slow

#: Without the buffer that inductor fills between kernels which it tries.
KERNELS = """import torch


@torch.compile(options={"triton.autotune_pointwise": False})
def scaled(x):
    return torch.sin(x) * 2 + 1
"""
#: One MiB is given, one comes back, and one is held.
TEST = """import pytest


@pytest.mark.mem_budget(gib=1)
def test_size():
    import torch
    from kernels import scaled

    held = torch.empty(2**18, device="cuda")
    scaled(torch.empty(2**18, device="cuda"))
"""
FILES = {
    "pyproject.toml": unchanged.PYPROJECT,
    "src/kernels.py": KERNELS,
    "installed/fake-1.0.dist-info/METADATA": unchanged.FILES["installed/fake-1.0.dist-info/METADATA"],
    "tests/test_sizes.py": TEST,
}


@pytest.mark.parametrize(
    ("name", "old", "new", "why"),
    [
        ("README.md", "", "", None),
        ("src/kernels.py", "* 2", "* 3", "changed: {root}/src/kernels.py"),
        ("installed/fake-1.0.dist-info/METADATA", "Version: 1.0", "Version: 1.1", "no entry"),
    ],
    ids=["nothing", "line", "version"],
)
def test_it_is_estimated_again_where_its_code_or_a_library_has_changed(project, name, old, new, why):
    project.write(name, FILES.get(name, "").replace(old, new) if old else "")

    assert project.miss() == why
