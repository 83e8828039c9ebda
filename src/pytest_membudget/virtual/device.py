"""The virtual device as a whole: installed once in a worker process, then one trace a test."""

from __future__ import annotations

import os
import sysconfig
import time
from typing import Any

import torch

from ..allocator import AllocatorSettings, CachingAllocator
from ..gpus import Gpu
from ..report import MemoryReport
from ..tracking.ledger import Ledger
from ..tracking.source import SourceFinder, shown_path
from ..tracking.summary import traced_report
from ..tracking.tracker import Tracker
from .attention import register_attention
from .cuda_kernels import register_cuda_kernels
from .cuda_module import install_cuda_module
from .device_names import install_device_names
from .device_query import install_device_query
from .disguise import install_disguise
from .generator import install_generator
from .guard import install_cuda_guard, register_stand_in_accelerator
from .legacy_types import install_legacy_types
from .mode import VirtualMode, on_cuda
from .patches import install_conversions, install_copies, install_optimizer_defaults
from .printing import install_printing
from .private import check_torch
from .reads import install_array_reads
from .recurrent import install_recurrent_layers
from .running_eagerly import install_data_parallel, install_eager_compile, install_loaders
from .saving import install_saving
from .tensor_methods import install_tensor_methods
from .unsupported import install_refusals

NOT_MODELLED = (
    "cuDNN's own workspaces (convolutions, attention's backward), and temporaries of CUDA kernels for which "
    "there is no rule (sparse, sorting of booleans, embedding bags, custom kernels)",
)


class VirtualDevice:
    """One CUDA device that is not there. ``install`` changes torch for the rest of the process."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self._libraries: list[Any] = []
        self._mode = VirtualMode(self._attention, gpu)
        self._began = 0.0
        #: what this test did that is not modelled, in the order of its coming up
        self._notes: dict[str, None] = {}
        self._start_tracker()

    @property
    def ledger(self) -> Ledger:
        """The ledger of the running test."""
        return self._tracker.ledger

    def install(self) -> None:
        """From here on all tensors of this process are fake, and cuda is there.

        Raises ``UnsupportedTorch`` for a torch that lacks what the device stands on.
        """
        check_torch()
        # nothing large is computed here, and a pool of threads does not survive the fork of a test's child
        torch.set_num_threads(1)
        # one fake tensor mode serves one thread; the engine would start another for the device that is not
        # there, and share a backward's nodes between them
        torch.autograd.set_multithreading_enabled(False)
        install_cuda_guard()
        register_stand_in_accelerator()
        install_device_query()
        install_disguise()
        self._install_tensors()
        self._install_cuda()
        self._mode.__enter__()

    def _install_tensors(self) -> None:
        """What fake tensors do as real ones."""
        see_parameter = self._tracker.roles.see_parameter
        install_conversions(see_parameter)
        install_copies(see_parameter)
        install_optimizer_defaults()
        install_device_names()
        install_generator()
        install_array_reads(self._mode.reads, self._mode.known)
        install_printing(self._mode.known)
        install_saving(self._mode.known, self._loaded)
        install_tensor_methods(self._tracker.record_stream)

    def _install_cuda(self) -> None:
        """What torch is on a machine with the device, and how its parts run on it."""
        install_eager_compile(self._note)
        install_loaders()
        install_data_parallel()
        install_refusals(self._note)
        install_cuda_module(lambda: self.gpu, lambda: self.ledger.allocator, self._tracker.select_stream)
        install_legacy_types()
        self._libraries = [
            register_attention(lambda: self.gpu.capability),
            register_cuda_kernels(),
            *install_recurrent_layers(self._note),
        ]

    def refused(self) -> list[str]:
        """Operators of the running test that could not be traced, and where."""
        return list(self._mode.refused)

    def imported_bytes(self) -> int:
        """Device memory that was allocated while modules were imported, and is still held."""
        return self.ledger.allocator.allocated_bytes

    def begin(self, gpu: Gpu, *, limited: bool) -> None:
        """A test begins on ``gpu``; ``limited``: the allocator runs out of memory where the card would.

        What imports have allocated stays: it is there in any process that runs the test.
        """
        self.gpu = gpu
        self._mode.gpu = gpu
        self._mode.workspaces.capability = gpu.capability
        self.ledger.allocator.capacity_bytes = gpu.usable_bytes if limited else None
        self._began = time.perf_counter()

    def end(self, *, metric: str, root: str) -> MemoryReport:
        """The test has ended: what it took."""
        self._tracker.roles.see_gradients()
        return traced_report(
            self.ledger,
            metric=metric,
            context_bytes=self.gpu.context_bytes,
            root=root,
            assumptions=self._assumptions(root),
            not_modelled=(*NOT_MODELLED, *self._notes),
            seconds=time.perf_counter() - self._began,
        )

    def _start_tracker(self) -> None:
        allocator = CachingAllocator(AllocatorSettings.from_environment(os.environ))
        self._tracker = Tracker(
            Ledger(allocator), SourceFinder(_hidden_folders(), sysconfig.get_paths()["stdlib"]), on_cuda
        )
        self._tracker.install()
        self._mode.tracker = self._tracker
        self._mode.reads.source = self._tracker.source

    def _loaded(self, tensor: torch.Tensor) -> None:
        if on_cuda(tensor):
            tensor.fake_device = torch.device("cuda", 0)  # type: ignore[attr-defined] # 2.11 leaves out the 0
            self._tracker.saw(tensor, "torch.load", ())

    def _note(self, text: str) -> None:
        self._notes[text] = None

    def _assumptions(self, root: str) -> list[str]:
        lines = []
        for read, count in self._mode.reads.counts.items():
            where = f"{shown_path(read.code.co_filename, root)}:{read.line}" if read.code else "torch"
            times = f"{count} times" if count > 1 else "once"
            article = "an" if read.dtype.startswith("int") else "a"
            lines.append(f"{where} reads {article} {read.dtype} value ({times}): taken to be {read.value}")
        return lines

    def _attention(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        from .attention import attention

        return attention(*args, capability=self.gpu.capability, **kwargs)


def _hidden_folders() -> list[str]:
    """Folders whose code is never the user's: torch, pytest, this package."""
    import _pytest
    import pluggy

    packages = [torch.__file__, _pytest.__file__, pluggy.__file__, os.path.dirname(__file__)]
    return [os.path.dirname(str(path)) for path in packages]
