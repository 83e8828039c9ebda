"""bitsandbytes on the virtual device, on a stand-in for it that has the parts which are changed.

``clients/test_bitsandbytes.py`` has the real one.
"""

import sys
import textwrap

import pytest
import torch
from pytest_membudget.devices.fake import extension_bitsandbytes
from pytest_membudget.devices.fake.extension_bitsandbytes import KERNELS, PAGED, PRIVATE_PARTS

from pytest_membudget.errors import UnsupportedTorch

MIB = 2**20

STAND_IN = {
    "__init__.py": "from . import functional",
    "cuda_specs.py": "def get_cuda_specs(): raise OSError('libcudart.so.13: cannot open shared object file')",
    "cextension.py": """
        from bitsandbytes.cuda_specs import get_cuda_specs
        found = get_cuda_specs()
        class Library:
            def __getattr__(self, name): raise RuntimeError(name + " needs CUDA")
        lib = Library()
    """,
    "functional.py": """
        import torch
        from .cextension import lib
        def get_paged(*shape, dtype, device): return lib.cget_managed_ptr(shape)
        lib.cquantize.argtypes = [int]
        lib["cquantize"].restype = None
        library = torch.library.Library("bitsandbytes", "FRAGMENT")
        library.define("quantize(Tensor A) -> (Tensor, Tensor)")
        def quantize(A):
            codes = torch.empty(A.shape, dtype=torch.uint8, device=A.device)
            absmax = torch.empty(A.numel() // 256, dtype=torch.float32, device=A.device)
            assert not lib.cquantize(A.data_ptr(), codes.data_ptr(), absmax.data_ptr())
            return codes, absmax
        torch.library.register_kernel("bitsandbytes::quantize", "cuda", quantize, lib=library)
        library.define("update(Tensor g, Tensor(a!) p, *, Tensor(b!)? state=None) -> ()")
        def update(g, p, *, state=None): lib.cadam(g.data_ptr(), p.data_ptr(), state.data_ptr())
        torch.library.register_kernel("bitsandbytes::update", "cuda", update, lib=library)
    """,
}


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory):
    """A folder with a package ``bitsandbytes``."""
    folder = tmp_path_factory.mktemp("stand_in")
    (folder / "bitsandbytes").mkdir()
    for name, text in STAND_IN.items():
        (folder / "bitsandbytes" / name).write_text(textwrap.dedent(text))
    return str(folder)


def imported(folder):
    sys.path.insert(0, folder)
    import bitsandbytes

    return bitsandbytes


def quantised(folder):
    imported(folder)
    weight = torch.zeros(MIB, dtype=torch.float16, device="cuda")
    codes, absmax = torch.ops.bitsandbytes.quantize(weight)
    return [list(codes.shape), list(absmax.shape)]


def test_an_operator_allocates_as_its_kernel_does(trace, stand_in):
    """8 bits an element, and a float32 for each 256 (bitsandbytes 0.50.2, optim/optimizer.py)."""
    run = trace(quantised, stand_in)

    assert run.value == [[MIB], [MIB // 256]]
    assert run.allocated == 2 * MIB + MIB + 4 * MIB // 256
    assert run.report.not_modelled == ()
    assert run.report.assumptions == (KERNELS,)


def updated(folder):
    imported(folder)
    gradient, parameter, state = (torch.zeros(4, device="cuda") for _ in range(3))
    torch.ops.bitsandbytes.update(gradient, parameter, state=state)
    return [gradient.sum().item(), parameter.sum().item(), state.sum().item()]


def test_what_the_c_library_writes_is_not_known(trace, stand_in):
    run = trace(updated, stand_in)

    assert run.value == [0.0, 1.0, 1.0]  # what is only read is known still
    (read,) = (line for line in run.report.assumptions if " reads " in line)
    assert "(2 times)" in read


def paged(folder):
    functional = imported(folder).functional
    state = functional.get_paged(MIB, 4, dtype=torch.float32, device=torch.device("cuda", 0))
    torch.zeros(1, device="cuda")
    return [state.is_paged, state.page_deviceid, state.device.type, list(state.shape), bool(state.data_ptr())]


def test_paged_states_are_the_hosts(trace, stand_in):
    run = trace(paged, stand_in)

    assert run.value == [True, 0, "cpu", [MIB, 4], True]
    assert run.allocated == 512
    assert run.report.host.peak_bytes == 16 * MIB
    assert run.report.assumptions == (PAGED,)


@pytest.mark.parametrize(("module", "attribute", "purpose"), PRIVATE_PARTS)
def test_a_bitsandbytes_without_a_part_is_refused_by_name(module, attribute, purpose):
    class Module:
        __name__ = module

    change = extension_bitsandbytes._checked(lambda found: pytest.fail("changed"))

    with pytest.raises(UnsupportedTorch, match=rf"has no {module}\.{attribute} \({purpose}\)"):
        change(Module())
