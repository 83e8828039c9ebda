"""Launches of Triton's kernels, on a stand-in for Triton that has the parts which are changed.

Triton itself is not installed with the CPU build; ``clients/test_triton.py`` has the real one.
"""

import sys
import textwrap

import pytest
import torch
from pytest_membudget.devices.fake import triton_launches
from pytest_membudget.devices.fake.triton_launches import BENCHMARK_BUFFER_BYTES, PRIVATE_PARTS, SCRATCH

from pytest_membudget.errors import NotAvailable, UnsupportedTorch

MIB = 2**20
COMPUTES_NOTHING = (
    "Triton kernels ({}) compute nothing and allocate nothing: they work on tensors that their callers "
    "allocate"
)

STAND_IN = {
    "__init__.py": "from . import runtime, testing",
    "testing.py": "def do_bench(fn, quantiles=None): raise AssertionError('no driver')",
    "runtime/__init__.py": "from . import _allocation, autotuner, driver, jit",
    "runtime/_allocation.py": """
        given = []
        def set_allocator(allocator): given.append(allocator)
    """,
    "runtime/driver.py": """
        class DriverConfig:
            _active = None
            @property
            def active(self):
                assert self._active is not None, "no driver"
                return self._active
            def set_active(self, driver): self._active = driver
        driver = DriverConfig()
    """,
    "runtime/jit.py": """
        class JITFunction:
            def __init__(self, fn):
                self.fn, self.__name__, self.pre_run_hooks = fn, fn.__name__, []
            def __getitem__(self, grid):
                return lambda *args, **kwargs: self.run(*args, grid=grid, warmup=False, **kwargs)
            def warmup(self, *args, grid, **kwargs):
                return self.run(*args, grid=grid, warmup=True, **kwargs)
            def run(self, *args, grid, warmup, **kwargs): raise AssertionError("no driver")
    """,
    "runtime/autotuner.py": """
        from .jit import JITFunction
        class Autotuner:
            def __init__(self, fn, configs, restore, cached=False, do_bench=None):
                self.fn, self.configs, self.restore, self._do_bench = fn, configs, restore, do_bench
                self.cached, self.best = cached, None
            @property
            def do_bench(self): raise AssertionError("no driver")
            def check_disk_cache(self, key, configs, bench_fn): raise AssertionError("no driver")
            def __getitem__(self, grid):
                return lambda *args: self.run(grid, *args)
            def run(self, grid, *args):
                def call():
                    kept = [tensor.clone() for tensor in self.restore(*args)]
                    self.fn[grid](*args)
                def bench_fn():
                    times = {one: self.do_bench(call, quantiles=(0.5, 0.2, 0.8)) for one in self.configs}
                    self.best = min(times, key=times.get)
                if self.best is None:
                    self.check_disk_cache("key", self.configs, bench_fn) if self.cached else bench_fn()
                self.fn[grid](*args)
    """,
}


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory):
    """A folder with a package ``triton``."""
    folder = tmp_path_factory.mktemp("stand_in")
    for name, text in STAND_IN.items():
        path = folder / "triton" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return str(folder)


def imported(folder):
    if "triton" in sys.modules:  # the real one, of a CUDA build
        for name in [name for name in sys.modules if name.partition(".")[0] == "triton"]:
            del sys.modules[name]
        virtual_device._triton.install()  # noqa: F821 - see device_server
    sys.path.insert(0, folder)
    import triton

    return triton


def scale(x, n): ...


def launched(folder):
    kernel = imported(folder).runtime.jit.JITFunction(scale)
    x = torch.zeros(MIB, device="cuda")
    hooked = []
    kernel.pre_run_hooks.append(lambda *args: hooked.append(len(args)))
    kernel[(1,)](x, x.numel())
    kernel.warmup(torch.float32, 1, grid=(1,))
    return hooked


def test_a_launch_does_nothing_and_the_memory_is_the_callers(trace, stand_in):
    run = trace(launched, stand_in)

    assert run.allocated == 4 * MIB
    assert run.value == [2]  # once: a warm-up launches nothing
    assert run.report.assumptions == (COMPUTES_NOTHING.format("scale"),)
    assert run.report.not_modelled == ()


def imported_alone(folder):
    imported(folder)
    torch.zeros(MIB, device="cuda")


def test_nothing_is_said_where_nothing_was_launched(trace, stand_in):
    assert trace(imported_alone, stand_in).report.assumptions == ()


def written(folder):
    kernel = imported(folder).runtime.jit.JITFunction(scale)
    losses, tokens = torch.zeros(4, device="cuda"), torch.full((4,), 7, device="cuda")
    kernel[(1,)](losses, [tokens], 4)
    return [losses.sum().item(), tokens.max().item()]


def test_what_a_kernel_may_have_written_is_not_known_any_more(trace, stand_in):
    run = trace(written, stand_in)

    assert run.value == [1.0, 7]  # unknown; and a whole number that is most likely only read
    told = [line for line in run.report.assumptions if "reads" in line]
    assert [line.split(" reads ")[1] for line in told] == [
        "a float32 value (once): taken to be 1.0",
        "an int64 value (once): taken to be 7",
    ]


def asked_for_registers(folder):
    kernel = imported(folder).runtime.jit.JITFunction(scale)
    try:
        kernel.warmup(torch.float32, 1, grid=(1,)).n_regs  # noqa: B018 - as Triton's tutorials do
    except NotAvailable as error:
        return str(error)


def test_what_only_compiling_knows_is_refused_by_name(trace, stand_in):
    assert trace(asked_for_registers, stand_in).value == (
        "scale.n_regs is known after compiling the Triton kernel, which is not done on the virtual CUDA "
        "device that budgets are estimated on; launch it with a grid that does not depend on it"
    )


def tuned(folder, cached):
    triton = imported(folder)
    restored = []
    tuner = triton.runtime.autotuner.Autotuner(
        triton.runtime.jit.JITFunction(scale), ["first", "second"], lambda x, n: restored, cached
    )
    x = torch.zeros(MIB, device="cuda")
    restored.append(x)
    tuner[(1,)](x, x.numel())
    return tuner.best


@pytest.mark.parametrize("cached", [False, True])
def test_autotuning_takes_the_first_configuration_and_its_benchmarks_buffer(trace, stand_in, cached):
    """``get_empty_cache_for_benchmark``: 256 MB, beside what the tuner restores after each run."""
    run = trace(tuned, stand_in, cached)

    assert run.value == "first"
    assert run.allocated == 4 * MIB + 4 * MIB + BENCHMARK_BUFFER_BYTES
    assert BENCHMARK_BUFFER_BYTES == 256 * MIB


def tuned_by_hand(folder):
    triton = imported(folder)
    tuner = triton.runtime.autotuner.Autotuner(
        triton.runtime.jit.JITFunction(scale), ["a", "b"], lambda x, n: [], do_bench=lambda fn, quantiles: [1]
    )
    tuner[(1,)](torch.zeros(MIB, device="cuda"), MIB)
    return tuner.best


def test_a_benchmark_of_the_users_own_is_called(trace, stand_in):
    run = trace(tuned_by_hand, stand_in)

    assert (run.value, run.allocated) == ("a", 4 * MIB)


def benchmarked(folder):
    x = torch.zeros(MIB, device="cuda")
    do_bench = imported(folder).testing.do_bench
    return [do_bench(x.zero_), do_bench(x.zero_, quantiles=(0.5, 0.2))]


def test_a_benchmark_gives_a_time(trace, stand_in):
    assert trace(benchmarked, stand_in).value == [1.0, [1.0, 1.0]]


def with_allocator(folder):
    triton = imported(folder)
    kernel = triton.runtime.jit.JITFunction(scale)
    triton.runtime._allocation.set_allocator(lambda size, alignment, stream: torch.empty(size, device="cuda"))
    kernel[(1,)](torch.zeros(MIB, device="cuda"), MIB)
    triton.runtime._allocation.set_allocator(None)
    kernel[(1,)](torch.zeros(MIB, device="cuda"), MIB)
    return len(triton.runtime._allocation.given)


def test_scratch_memory_of_kernels_is_not_modelled_and_said(trace, stand_in):
    run = trace(with_allocator, stand_in)

    assert run.value == 2
    assert run.report.not_modelled == (SCRATCH.format("scale"),)


def asked_driver(folder):
    driver = imported(folder).runtime.driver.driver.active
    told = [
        str(driver.get_active_torch_device()), driver.get_current_device(), driver.get_current_stream(0),
        driver.get_device_capability(), driver.get_device_interface() is torch.cuda,
        driver.utils.get_device_properties(0)["multiprocessor_count"],
    ]  # fmt: skip
    try:
        driver.load_binary  # noqa: B018
    except NotAvailable as error:
        told.append(str(error).split(" is not")[0])
    return told


def test_the_driver_is_the_virtual_devices(trace, stand_in):
    """An A100 has 108 multiprocessors and compute capability 8.0 (NVIDIA's data sheet)."""
    assert trace(asked_driver, stand_in).value == [
        "cuda:0", 0, 0, [8, 0], True, 108, "triton.runtime.driver.active.load_binary"
    ]  # fmt: skip


@pytest.mark.parametrize(("module", "path", "purpose"), PRIVATE_PARTS)
def test_a_triton_without_a_part_is_refused_by_name(module, path, purpose):
    class Module:
        __name__ = module

    change = triton_launches._checked(lambda found: pytest.fail("changed"))

    with pytest.raises(UnsupportedTorch, match=rf"no {module}\.{path} \({purpose}\)"):
        change(Module())
