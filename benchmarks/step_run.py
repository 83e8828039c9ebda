"""One run of one step, in a process of its own: ``python -m benchmarks.step_run ORDER``.

ORDER is JSON: ``way`` (``card``: only tell what there is; ``bare``: without a hook or a history;
``measured``: by the measuring device; ``estimated``: as a worker estimates it), ``device`` (``cuda``, or
``stand-in``, whose libraries the process was started with), ``gpu`` (of the stand-in), ``step``, ``root``,
``out`` (where the answer goes, JSON) and ``history`` (where the compact history goes, or null). All is
imported first; a line on standard input starts the run, so that processes can wait for the device with their
imports done.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import platform
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, NoReturn

from pytest_membudget.devices.real.device import is_stand_in_loaded
from pytest_membudget.results.answer import Request

from .steps.step import Step

_SEED = 0
_CALLS = 6
#: A step's text has so many characters of an error at most.
_MESSAGE = 2000


def main(arguments: list[str]) -> NoReturn:
    """Carry out the order and leave at once: nothing is torn down."""
    order = json.loads(arguments[0])
    try:
        answer = _carried_out(order)
    except Exception as error:
        answer = _failed(error)
    Path(order["out"]).write_text(json.dumps(answer), encoding="utf-8")
    with contextlib.suppress(Exception):  # a device that has failed gives nothing back
        _give_back()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _carried_out(order: Mapping[str, Any]) -> dict[str, Any]:
    device = _device(order)
    import torch

    if is_stand_in_loaded() and order["device"] != "stand-in":
        raise RuntimeError("the stand-in's libraries are loaded: unset LD_PRELOAD")
    if order["way"] == "card":
        driver = _driver() if order["device"] == "cuda" else order["device"]
        return {"outcome": "ok", "versions": _versions(driver)}
    step = Step.from_json(order["step"])
    step.load()
    if not sys.stdin.readline():
        os._exit(1)  # whoever wanted it is gone
    torch.manual_seed(_SEED)
    return _bare(step) if device is None else _followed(step, device, order)


def _bare(step: Step) -> dict[str, Any]:
    """What the allocator says, and nothing else has looked."""
    import torch

    began = time.perf_counter()
    step.body()
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    return {
        "outcome": "ok",
        "allocated_bytes": torch.cuda.max_memory_allocated(),
        "active_bytes": stats.get("active_bytes.all.peak", 0),
        "reserved_bytes": torch.cuda.max_memory_reserved(),
        "retries": stats.get("num_alloc_retries", 0),
        "seconds": round(time.perf_counter() - began, 3),
    }


def _followed(step: Step, device: Any, order: Mapping[str, Any]) -> dict[str, Any]:
    """A report with components, and the history."""
    import torch

    began = time.perf_counter()
    if order["way"] == "measured":
        device.begin()
    else:
        device.begin(Request("", "", device.gpu.name, limited=True, metric="allocated"))
    step.body()
    report = device.end(metric="allocated", root=order["root"], records=bool(order["history"]))
    answer = {"outcome": "ok", "report": report.to_json(), "text": step.text()}
    if order["history"]:
        from .compact_history import compact, write_history

        content = device.snapshot()
        if content is not None and content["device_traces"][torch.cuda.current_device()]:
            history = compact(content, torch.cuda.current_device(), step.alloc_conf)
            size_bytes = write_history(Path(order["history"]), history)
            answer["history"] = {"bytes": size_bytes, "events": len(history["traces"][-1])}
    answer["seconds"] = round(time.perf_counter() - began, 3)
    return answer


def _give_back() -> None:
    """Leave the card free for the next process, however long the driver takes to clean up after this one."""
    import torch

    if torch.cuda.is_initialized():
        gc.collect()
        torch.cuda.empty_cache()


def _device(order: Mapping[str, Any]) -> Any:
    """What follows the run; None if nothing does."""
    if order["way"] == "estimated":
        from pytest_membudget.devices.stand_in.device import StandInDevice
        from pytest_membudget.hardware.gpus import find_gpu

        device = StandInDevice(find_gpu(order["gpu"]))
        device.install()
        return device
    if order["way"] == "measured":
        import torch

        from pytest_membudget.devices.real.device import RealCudaDevice

        torch.cuda.init()  # before it the allocator has nothing to note a text with
        real = RealCudaDevice()
        real.install()
        return real
    return None


def _versions(driver: str) -> dict[str, Any]:
    """Card and software; what decides how much a step takes."""
    import torch

    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return {
        "card": properties.name,
        "total_bytes": properties.total_memory,
        "capability": [properties.major, properties.minor],
        "multiprocessors": properties.multi_processor_count,
        "driver": driver,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "python": platform.python_version(),
        "transformers": _release("transformers"),
    }


def _driver() -> str:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return ""
    command = [tool, "--query-gpu=driver_version", "--format=csv,noheader"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.split("\n")[0].strip()


def _release(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _failed(error: Exception) -> dict[str, Any]:
    import torch

    outcome = "out of memory" if isinstance(error, torch.OutOfMemoryError) else "error"
    calls = traceback.extract_tb(error.__traceback__)[-_CALLS:]
    where = " > ".join(f"{Path(call.filename).name}:{call.lineno}" for call in calls)
    return {"outcome": outcome, "message": f"{type(error).__name__}: {error}"[:_MESSAGE], "where": where}


if __name__ == "__main__":
    main(sys.argv[1:])
