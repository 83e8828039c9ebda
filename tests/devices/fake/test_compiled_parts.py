"""The private parts of torch that compiled regions stand on: each is there, and one that is not is named."""

import pytest

from pytest_membudget.devices.fake import compiled_regions
from pytest_membudget.devices.fake.private import check_parts
from pytest_membudget.errors import UnsupportedTorch


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # inductor's import
@pytest.mark.parametrize(
    ("module", "path", "purpose"),
    compiled_regions.PARTS,
    ids=[f"{module}.{path}" for module, path, _ in compiled_regions.PARTS],
)
def test_a_part_is_there_and_its_absence_says_what_it_is_for(module, path, purpose):
    check_parts([(module, path, purpose)])

    with pytest.raises(UnsupportedTorch, match="compiled") as error:
        check_parts([(module, f"{path}_is_gone", purpose)])
    assert f"{module}.{path}_is_gone ({purpose})" in str(error.value)


def without_a_part():
    import torch

    compiled_regions.PARTS = (("torch", "is_gone", "compiled regions: a test"),)
    compiled = torch.compile(lambda x: x.sin().cos())
    x = torch.randn(512, 512, device="cuda", requires_grad=True)
    output = compiled(x)
    return torch.cuda.memory_allocated() if output.requires_grad else None


def test_without_a_part_a_region_is_traced_as_eager_code_and_that_is_said(trace):
    """Output and what sin left for cos: 1 MiB each, and the input."""
    traced = trace(without_a_part)

    assert traced.value == 3 * 2**20
    (line,) = traced.report.not_modelled
    assert line.startswith("torch.compile: without_a_part.<locals>.<lambda> is traced as eager code")
    assert "it has no torch.is_gone (compiled regions: a test)" in line
