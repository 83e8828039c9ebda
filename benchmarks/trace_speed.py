"""How long a trace takes: beside a bare fake-tensor run of the same steps, and beside torch's MemTracker.

One process a measurement, in turn, so that a slow moment of the machine hits all of them; ratios of the
medians are what counts. Imports are not timed. Prints a table, and exits with 1 where the trace is over
``--most-ratio``. On a CUDA build of torch the stand-in is timed too, and held to ``--most-stand-in-ratio``;
and once more with its report.

    python benchmarks/trace_speed.py [--rounds 3] [--layers 32] [--without-memtracker]
"""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from pytest_membudget.devices.stand_in.device import StandInDevice

STEPS = 2
TOKENS = 2048


def train(layers: int, before_step: Callable[[], object] = lambda: None) -> None:
    """Two full steps of a Llama at 8B shape: bf16, AdamW with CUDA's foreach default, 1 x 2,048 tokens."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=128256, hidden_size=4096, intermediate_size=14336, num_hidden_layers=layers,
        num_attention_heads=32, num_key_value_heads=8, use_cache=False,
    )  # fmt: skip
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = LlamaForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    tokens = torch.randint(0, config.vocab_size, (1, TOKENS), device="cuda")
    for _ in range(STEPS):
        before_step()
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def traced(layers: int) -> float:
    """The virtual device with everything on: allocator, components, modules, lines."""
    from pytest_membudget.devices.fake.device import VirtualDevice
    from pytest_membudget.hardware.gpus import find_gpu

    device = VirtualDevice(find_gpu("H100-80GB"))
    device.install()
    device.begin(device.gpu, limited=False)
    seconds = timed(lambda: train(layers))
    del device
    return seconds


def stand_in(layers: int) -> float:
    """PyTorch's own CUDA code on a card that is not there, with everything on."""
    device = _followed_stand_in()
    seconds = timed(lambda: train(layers))
    del device  # it follows as long as it lives
    return seconds


def stand_in_report(layers: int) -> float:
    """The same, and the report at the end."""
    device = _followed_stand_in()

    def run() -> None:
        train(layers)
        device.end(metric="allocated", root=os.getcwd())

    return timed(run)


def _followed_stand_in() -> StandInDevice:
    from pytest_membudget.devices.stand_in.device import StandInDevice
    from pytest_membudget.hardware.gpus import find_gpu

    device = StandInDevice(find_gpu("H100-80GB"))
    device.install()
    device.begin(device.gpu, limited=False)
    return device


def bare(layers: int) -> float:
    """PyTorch's own FakeTensorMode, with only what it takes to run autograd on a cuda that is not there."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with_fake_cuda()
    with mode:
        return timed(lambda: train(layers))


def memtracker(layers: int) -> float:
    """The same under ``torch.distributed._tools.MemTracker``."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed._tools.mem_tracker import MemTracker

    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with_fake_cuda()
    with mode, MemTracker() as tracker:
        return timed(lambda: train(layers, tracker.reset_mod_stats))  # it refuses a second step otherwise


def _no_recording() -> NoReturn:
    raise NotImplementedError("nothing is recorded here")


def with_fake_cuda() -> None:
    """The patches without which a bare fake tensor mode cannot run a backward on cuda tensors."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    from pytest_membudget.devices.fake import attention, cuda_module, device_query, generator, guard, patches
    from pytest_membudget.devices.stand_in.values.known_values import KnownValues
    from pytest_membudget.devices.fake.memory_history import MemoryHistory
    from pytest_membudget.hardware.gpus import find_gpu

    guard.install_cuda_guard()
    guard.register_stand_in_accelerator()
    device_query.install_device_query()
    patches.install_conversions(lambda parameter: None)
    patches.install_optimizer_defaults()
    generator.install_generator(KnownValues())
    from pytest_membudget.allocator.caching import CachingAllocator

    gpu, allocator = find_gpu("H100-80GB"), CachingAllocator()
    history = MemoryHistory(_no_recording, allocator.segments)
    cuda_module.install_cuda_module(
        lambda: gpu, lambda: allocator, lambda stream: None, history, lambda: None
    )
    FakeTensorMode.avoid_device_init = property(lambda self: True)  # type: ignore[assignment]
    torch.cuda._membudget_library = attention.register_attention(lambda: gpu.capability)  # type: ignore[attr-defined]


def timed(body: Callable[[], None]) -> float:
    """CPU seconds of ``body``, all threads: steadier than the clock on a busy machine.

    What imports have made is collected before, which takes as long as a quarter of the shortest body.
    """
    gc.collect()
    began = time.process_time()
    body()
    return time.process_time() - began


STAND_IN = "stand-in"
STAND_IN_REPORT = "stand-in, report"
VARIANTS: dict[str, Callable[[int], float]] = {
    "bare": bare,
    "traced": traced,
    STAND_IN: stand_in,
    STAND_IN_REPORT: stand_in_report,
    "memtracker": memtracker,
}


def environment_of(variant: str) -> dict[str, str]:
    """The environment of a process that measures ``variant``."""
    if variant not in (STAND_IN, STAND_IN_REPORT):
        return {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    from pytest_membudget.devices.stand_in.building import built_libraries
    from pytest_membudget.devices.stand_in.environment import stand_in_environment
    from pytest_membudget.hardware.gpus import find_gpu

    environment = {"TORCH_SYMBOLIZE_MODE": "fast", **os.environ}
    built = built_libraries(os.environ)
    return stand_in_environment(built, find_gpu("H100-80GB"), 1, environment, unlimited=True)


def variants_here(*, with_memtracker: bool) -> list[str]:
    """Those that this torch can run."""
    from pytest_membudget.devices.stand_in.environment import cuda_version_of_torch

    left_out = [] if with_memtracker else ["memtracker"]
    left_out += [] if cuda_version_of_torch() is not None else [STAND_IN, STAND_IN_REPORT]
    return [name for name in VARIANTS if name not in left_out]


def child(variant: str, layers: int) -> None:
    """Measure one variant in this process, print seconds and MiB of host memory, and leave at once.

    The model's library is imported before: that takes the same in all variants, and more than the steps.
    """
    importlib.import_module("transformers.models.llama.modeling_llama")
    seconds = VARIANTS[variant](layers)
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{seconds} {peak_mib}", flush=True)
    os._exit(0)


def measure(variant: str, layers: int) -> tuple[float, float]:
    """Seconds and MiB of one run of ``variant`` in a process of its own."""
    command = [sys.executable, __file__, "--child", variant, "--layers", str(layers)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment_of(variant))
    if done.returncode or not done.stdout.strip():
        raise SystemExit(f"{variant} failed:\n{done.stderr[-3000:]}")
    seconds, peak_mib = done.stdout.split()[-2:]
    return float(seconds), float(peak_mib)


def main() -> int:
    """Run the variants in turn and print their table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--most-ratio", type=float, default=1.3, help="traced over bare, at most")
    parser.add_argument(
        "--most-stand-in-ratio", type=float, default=0.15, help="the stand-in over bare, at most"
    )
    parser.add_argument("--without-memtracker", action="store_true")
    parser.add_argument("--child", choices=VARIANTS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child, arguments.layers)
    variants = variants_here(with_memtracker=not arguments.without_memtracker)
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name in variants}
    for number in range(arguments.rounds):
        for name in variants:
            print(f"round {number + 1}/{arguments.rounds}: {name}", file=sys.stderr, flush=True)
            runs[name].append(measure(name, arguments.layers))
    return report(runs, arguments)


def report(runs: dict[str, list[tuple[float, float]]], arguments: argparse.Namespace) -> int:
    """Print the table; 1 if the trace, or the stand-in, is too slow."""
    from tabulate import tabulate

    medians = {name: statistics.median(seconds for seconds, _ in rows) for name, rows in runs.items()}
    rows = [
        (name, f"{medians[name]:.2f}", f"{medians[name] / medians['bare']:.2f}",
         f"{max(mib for _, mib in runs[name]):.0f}")
        for name in runs
    ]  # fmt: skip
    print(f"{STEPS} steps, {arguments.layers} layers at Llama-3-8B shape, {TOKENS} tokens")
    print(tabulate(rows, ("run", "CPU seconds (median)", "of bare", "host MiB (max)"), disable_numparse=True))
    most = {"traced": arguments.most_ratio, STAND_IN: arguments.most_stand_in_ratio}
    return int(any(medians[name] > most[name] * medians["bare"] for name in most if name in medians))


if __name__ == "__main__":
    raise SystemExit(main())
