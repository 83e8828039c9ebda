"""Plans of cuDNN whose kernels would be compiled: the workspace is known before that.

What breaks here where cuDNN changes: the workspace that an engine's configuration states is no longer that of
its plan, and plans have to be finalized at once.
"""

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cudnn_questions import (
    DESCRIPTOR,
    HEURISTIC_MODE,
    INT64,
    Convolution,
    Question,
    needs_cudnn,
    operation,
    real_cudnn,
)

from pytest_membudget.devices.stand_in.environment import stand_in_environment
from pytest_membudget.devices.torch_build.installed import workers_torch
from pytest_membudget.devices.torch_parts import torch_release
from pytest_membudget.hardware.gpus import find_gpu

pytestmark = needs_cudnn


def plans_of_a_convolution():
    """Of each plan of the heuristics' fallback mode: what the stand-in and the real library say of it."""
    import torch

    torch.cuda.init()
    torch.nn.functional.conv2d(torch.empty(1, 8, 8, 8, device="cuda"), torch.empty(8, 8, 1, 1, device="cuda"))
    shape, weight = (8, 64, 56, 56), (64, 64, 3, 3)
    layer = Convolution(
        "FORWARD", shape, weight, shape, (1, 1), (1, 1), (1, 1), "bfloat16", channels_last=True
    )
    stand_in, real = ctypes.CDLL(None), real_cudnn()
    found = []
    with Question(stand_in) as question:
        graph = question.describe(15, (801, DESCRIPTOR, [operation(question, layer)]))
        heuristics = question.describe(4, (201, DESCRIPTOR, [graph]), (200, HEURISTIC_MODE, [2]))
        for config in question.parts(heuristics, 202, 3):
            engine = question.part(config, 300, 2)
            notes = question.values(engine, 1305, 19, 16)
            plan = question.describe(5, (401, DESCRIPTOR, [config]))
            before = asked(real, plan)
            workspace = question.values(plan, 402, INT64, 1)
            said = asked(stand_in, plan)
            compiled = question.values(plan, 402, INT64, 1) if said == 0 else None
            found.append({
                "notes": notes, "before": before, "workspace": workspace, "said": said, "compiled": compiled
            })  # fmt: skip
    return found


def asked(library, plan):
    """The status of the question for the plan's text (CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION)."""
    text, count = ctypes.create_string_buffer(1 << 16), ctypes.c_int64()
    return library.cudnnBackendGetAttribute(plan, 405, 24, ctypes.c_int64(1 << 16), ctypes.byref(count), text)


def run_with_nvrtc(libraries):
    """The same in a process where cuDNN finds the real NVRTC, which compiles."""
    torch, gpu = workers_torch(os.environ), find_gpu("H100-80GB")
    environment = stand_in_environment(libraries, torch, gpu, 1, os.environ, unlimited=True)
    preloaded = environment["LD_PRELOAD"].split()
    environment["LD_PRELOAD"] = " ".join(
        path for path in preloaded if not Path(path).name.startswith("nvrtc.")
    )
    code = "import json, test_cudnn_plans as own; print(json.dumps(own.plans_of_a_convolution()))"
    environment["PYTHONPATH"] = os.pathsep.join(
        [str(Path(__file__).parent), environment.get("PYTHONPATH", "")]
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def test_the_workspace_is_that_of_the_plan_when_nvrtc_has_compiled_it(cuda_build):
    if not list(workers_torch(os.environ).folder.glob("nvidia/*/lib/libnvrtc.so.*")):
        pytest.skip("NVRTC is not installed beside torch")
    found = run_with_nvrtc(cuda_build)

    at_run_time = [plan for plan in found if 0 in plan["notes"]]  # CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION
    at_once = [plan for plan in found if 0 not in plan["notes"]]
    assert at_run_time
    assert at_once
    assert 0 not in {plan["before"] for plan in at_run_time}  # CUDNN_STATUS_SUCCESS
    assert {plan["before"] for plan in at_once} == {0}
    if torch_release() < (2, 13):  # whose NVRTC 13.0 does not compile the kernel of cuDNN 9.19
        found = [plan for plan in found if plan["said"] != 4001]
    assert {plan["said"] for plan in found} == {0}
    assert [plan["workspace"] for plan in found] == [plan["compiled"] for plan in found]


def test_what_would_have_to_be_compiled_is_refused_when_more_than_its_workspace_is_asked(stand_in):
    found = stand_in(plans_of_a_convolution, gpu="H100-80GB", not_modelled=["__nvrtcCPEx"])

    at_run_time = [plan for plan in found if 0 in plan["notes"]]
    assert at_run_time
    if torch_release() >= (2, 15):  # whose cuDNN 9.26 writes the text without compiling
        assert [plan["workspace"] for plan in found] == [plan["compiled"] for plan in found]
        return
    assert 0 not in {plan["said"] for plan in at_run_time}
    assert {plan["said"] for plan in found if 0 not in plan["notes"]} == {0}
