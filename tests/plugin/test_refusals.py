"""What only the stand-in refuses is an error of the test, whatever its body makes of the refusal."""

import pytest

from tests.plugin.bodies import source

HEAD = """\
import ctypes

import pytest
import torch
import torch.multiprocessing as mp
from holding import hold

budget = pytest.mark.mem_budget(gib=1)

def share():
    mp.get_context("spawn").SimpleQueue().put(torch.empty(4, device="cuda"))

"""
#: The function that is refused, and a body that calls it.
REFUSED = {
    "shares_a_tensor_and_catches": (
        "cudaIpcGetMemHandle",
        "try:\n    share()\nexcept Exception:\n    pass\nkept = hold(0.1)",
    ),
    "skips_itself_after_a_refusal": (
        "cudaIpcGetMemHandle",
        "try:\n    share()\nexcept Exception:\n    pytest.skip('this machine has no CUDA IPC')",
    ),
    "does_not_catch": ("cudaIpcGetMemHandle", "share()"),
    "exports_memory": (
        "cuMemExportToShareableHandle",
        "kept, made = hold(0.1), ctypes.c_void_p()\n"
        "ctypes.CDLL('libcuda.so.1').cuMemExportToShareableHandle(ctypes.byref(made), 1, 1, 0)",
    ),
    "looks_a_function_of_the_driver_up": (
        "cuIpcGetMemHandle",
        "kept, found, driver = hold(0.1), ctypes.c_void_p(), ctypes.CDLL('libcuda.so.1')\n"
        "assert driver.cuGetProcAddress_v2(b'cuIpcGetMemHandle', ctypes.byref(found), 13000, 0, None) == 0\n"
        "ctypes.CFUNCTYPE(ctypes.c_int)(found.value)()",
    ),
    "looks_up_what_is_not_there": (
        "cuOfTomorrow",
        "kept, found, driver = hold(0.1), ctypes.c_void_p(), ctypes.CDLL('libcuda.so.1')\n"
        "driver.cuGetProcAddress_v2(b'cuOfTomorrow', ctypes.byref(found), 13000, 0, None)",
    ),
    "asks_cupti": (
        "cuptiProfilerInitialize",
        "kept = hold(0.1)\nctypes.CDLL(None).cuptiProfilerInitialize(None)",
    ),
    "asks_nvml": (
        "nvmlDeviceGetNvLinkRemotePciInfo_v2",
        "kept = hold(0.1)\ntry:\n"
        "    ctypes.CDLL('libnvidia-ml.so.1').nvmlDeviceGetNvLinkRemotePciInfo_v2(1, 0, None)\n"
        "except Exception:\n    pass",
    ),
}
#: Whose copies decide, and a body with them.
DECIDES = {
    # more than 2,048 numbers in a row are sorted and counted by thrust: TensorModeKernel.cu, 2.11 to 2.15
    "finds_the_most_common_number": (
        "aten::mode",
        "kept = hold(0.1)\ntorch.mode(torch.zeros(4096, dtype=torch.long, device='cuda'))",
    ),
    "copies_from_the_card_itself": (
        "code outside PyTorch's operators",
        "kept, numbers = hold(0.1), (ctypes.c_float * 4)()\n"
        "source = ctypes.c_void_p(torch.randn(4, device='cuda').data_ptr())\n"
        "assert ctypes.CDLL(None).cudaMemcpy(numbers, source, ctypes.c_size_t(16), 2) == 0\n"
        "if numbers[0] == 0:\n    kept.append(hold(0.1))",
    ),
}
#: What is said of sizes that depend on data, and a body that asks for one.
SIZES = {
    "asks_for_a_size": (
        ("NotAvailable in call at test_budgets.py:", "with pytest_membudget.assume(repeats=2.0)"),
        "x = torch.randn(9, device='cuda')\nx.repeat_interleave(x.long())",
    ),
    "goes_on_without_a_size": (
        ("of what aten.repeat_interleave.Tensor gives depends on data", "which the test may have caught"),
        "kept, x = hold(0.1), torch.randn(9, device='cuda')\n"
        "try:\n    x.repeat_interleave(x.long())\nexcept Exception:\n    pass",
    ),
}
NONE = {
    "profiles": (
        "with torch.profiler.profile() as profile:\n    kept = hold(0.1)\nassert profile.key_averages()"
    ),
    "is_refused_what_a_card_refuses": (
        "kept, cuda = hold(0.1), ctypes.CDLL(None)\nassert cuda.cudaFree(ctypes.c_void_p(64)) == 1\n"
        "assert cuda.cudaGetLastError() == 1\nassert cuda.cudaSetDevice(5) == 101"
    ),
    "reads_what_is_followed": (
        "kept, x = hold(0.1), torch.zeros(4, device='cuda')\n"
        "assert x.tolist() == [0.0] * 4 and x.sum().item() == 0 and x.cpu()[0] == 0\n"
        "assert torch.nonzero(x).shape == (0, 1) and '0.' in str(x)\n"
        "torch.linalg.svd(torch.zeros(4, 4, device='cuda'))\n"
        "torch.linalg.matrix_exp(torch.zeros(4, 4, device='cuda'))"
    ),
}
BODIES = source(
    {name: body for name, (_, body) in (REFUSED | DECIDES | SIZES).items()} | NONE,
    HEAD,
    marks={"does_not_catch": "pytest.mark.xfail(reason='says the user')\n@budget"},
)


FILES = {"test_budgets.py": BODIES}
MEASURE = "--membudget-measure=require"
BY_KERNELS = "decides by what kernels have computed on the card"
SAID = (
    {name: (f"{one} was called, which the stand-in refuses", MEASURE) for name, (one, _) in REFUSED.items()}
    | {name: (who, BY_KERNELS, MEASURE) for name, (who, _) in DECIDES.items()}
    | {name: said for name, (said, _) in SIZES.items()}
)


@pytest.mark.parametrize("name", SAID)
def test_a_refusal_is_an_error_that_names_the_function_and_what_to_do(run, name):
    text = " ".join(run.text(f"test_{name}").split())

    assert run.outcomes[f"test_{name}"] == "failed"
    assert run.rows[f"test_{name}"]["verdict"] == "error"
    assert [said for said in SAID[name] if said not in text] == []


@pytest.mark.parametrize("name", NONE)
def test_copies_of_what_is_followed_and_what_a_card_does_or_refuses_itself_are_none(run, name):
    assert run.outcomes[f"test_{name}"] == "passed", run.text(f"test_{name}")
    [estimate] = run.rows[f"test_{name}"]["estimates"]
    assert name == "reads_what_is_followed" or estimate["caveats"] == []
