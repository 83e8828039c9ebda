"""The virtual device as a whole: installed once in a worker process, then one trace a test."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from ...allocator.caching import CachingAllocator
from ...allocator.device_memory import segment_addresses
from ...allocator.settings import VARIABLES, AllocatorSettings
from ...caveats import HOST_PATH, HOW, OPERATOR, OTHER_PATH, Caveat, CaveatKind, caveats_of
from ...hardware.gpus import Gpu, find_gpu
from ...memory_report import MemoryReport
from ...tracking.ledger import Ledger
from ...tracking.recording import Recording
from ...tracking.running_code.source import users_source
from ...tracking.summary import host_report, memory_report
from ...tracking.timeline import Lives
from ...tracking.tracker import Tracker
from ..contract import Device, context_caveats
from .absent_triton import AbsentTriton
from .attention import register_attention
from .batch_norm_choice import register_batch_norms
from .charges import on_cuda
from .cluster.cluster import VirtualCluster
from .cluster.group_of_one import begin_with_group_of_one
from .cluster.nccl_share import nccl_share
from .compiled_inductor import HOST
from .compiled_regions import CompiledRegions
from .convolution_choice import install_convolutions
from .cuda_kernels import register_cuda_kernels
from .cuda_module import install_cuda_module
from .device_names import install_device_names
from .device_query import install_device_query
from .disguise import install_disguise
from .extension_bitsandbytes import install_bitsandbytes
from .forks import refuse_in_forks
from .generator import install_generator
from .guard import install_cuda_guard, register_stand_in_accelerator
from .higher_order import install_examples
from .legacy_types import install_legacy_types
from .loaders import install_loaders
from .memory_history import MemoryHistory
from .mode import VirtualMode
from .ordinal import Place, own_device, place, take_place
from .parameter_class import install_parameter_class
from .patches import install_conversions, install_copies, install_optimizer_defaults
from .printing import install_printing
from .private import check_torch, torch_release
from .read_floats import install_read_floats
from .reads import install_array_reads
from .recurrent import install_recurrent_layers
from .refusals import refused
from .running_eagerly import install_data_parallel, install_eager_scripts
from .safetensors_files import install_safetensors
from .saving import install_saving
from .self_check import self_check
from .storage_sizes import install_storage_sizes
from .tensor_lists import install_tensor_lists
from .tensor_methods import install_tensor_methods
from .tensor_subclasses import install_subclasses
from .threads import install_threads
from .triton_launches import TritonLaunches
from .unsupported import install_refusals


def made_for(order: Mapping[str, Any]) -> VirtualDevice:
    """The device of a worker's order."""
    return VirtualDevice(find_gpu(order["gpu"]), cards=order["cards"], records=order["records"])


class VirtualDevice(Device):
    """One CUDA device that is not there. ``install`` changes torch for the rest of the process."""

    #: as texts call it
    name = "the virtual device"

    def __init__(self, gpu: Gpu, *, cards: int = 1, records: bool = False) -> None:
        """``cards``: how many there are while modules are imported; a test has those of its machine.

        ``records``: keep what ``snapshot`` needs, every allocation with its stack.
        """
        self.gpu = gpu
        self._cards = cards
        self._records = records
        self._recording: Recording | None = None
        self._lives: Lives | None = None
        self._libraries: list[Any] = []
        self._mode = VirtualMode(self._attention, gpu)
        self._limited = False
        self._began = 0.0
        self._cluster: VirtualCluster | None = None
        #: what this test took for granted, or did that is not modelled, in the order of its coming up
        self._notes: dict[Caveat, None] = {}
        self._absent = AbsentTriton()
        self._triton = TritonLaunches(lambda: self.gpu, self._mode.known, self._noting(OPERATOR))
        self._start_tracker()
        self._regions = CompiledRegions(self._mode, self._note_eager, self._tracker)

    @property
    def ledger(self) -> Ledger:
        """The ledger of the running test."""
        return self._tracker.ledger

    def install(self) -> None:
        """From here on all tensors of this process are fake, and cuda is there.

        Raises ``UnsupportedTorch`` for a torch that lacks what the device needs.
        """
        check_torch()
        take_place(Place(node_gpus=self._cards))
        self._regions.learn()
        # nothing large is computed here, and a pool of threads does not survive the fork of a test's child
        torch.set_num_threads(1)
        # one fake tensor mode serves one thread; the engine would share a backward's nodes with another
        torch.autograd.set_multithreading_enabled(False)
        install_cuda_guard()
        register_stand_in_accelerator()
        install_device_query()
        install_disguise()
        self._install_tensors()
        self._install_cuda()
        install_threads(self._mode)
        self._mode.__enter__()

    def self_check(self) -> None:
        """Raise ``UnsupportedTorch`` if a step with known figures has others; for a process that ends."""
        self_check(self, self.gpu, lambda: self.ledger.births)

    def _install_tensors(self) -> None:
        """What fake tensors do as real ones."""
        see_parameter = self._tracker.roles.see_parameter
        install_conversions(see_parameter)
        install_copies(see_parameter)
        install_optimizer_defaults()
        install_parameter_class()
        install_subclasses()
        install_device_names()
        install_generator(self._mode.known)
        install_array_reads(self._mode.reads, self._mode.known)
        install_read_floats(self._mode.reads)
        install_printing(self._mode.known)
        install_saving(self._mode.known, self._loaded)
        install_safetensors()
        install_tensor_lists()
        install_tensor_methods(self._tracker.record_stream, self._tracker.pinned)
        install_storage_sizes(self._resized)
        install_examples(self._mode)

    def _install_cuda(self) -> None:
        """What torch is on a machine with the device, and how its parts run on it."""
        self._regions.install()
        install_loaders(lambda: self.ledger.births)
        install_data_parallel()
        install_eager_scripts()
        install_refusals(self._noting(OTHER_PATH))
        history = MemoryHistory(self._record, lambda: self.ledger.allocator.segments())
        install_cuda_module(
            lambda: self.gpu,
            lambda: self.ledger.allocator,
            self._tracker.streams.select,
            history,
            lambda: self._mode.charges.clear_workspaces(self._tracker),
        )
        install_legacy_types()
        install_convolutions(lambda: self.gpu)
        self._absent.install()
        self._triton.install()
        install_bitsandbytes(self._noting(HOW))
        self._libraries = [
            register_attention(lambda: self.gpu.capability),
            register_batch_norms(),
            self._mode.one_hot.register(),
            register_cuda_kernels(),
            *install_recurrent_layers(self._tracker.roles.see_parameter),
        ]

    def refused(self) -> list[str]:
        """What was refused in this process that a GPU would have done, each with its place."""
        return refused()

    def imported_bytes(self) -> int:
        """Device memory that was allocated while modules were imported, and is still held."""
        return self.ledger.allocator.allocated_bytes

    def begin(
        self, gpu: Gpu, *, limited: bool, rank: int = 0, world_size: int = 1, rank0_broadcasts: str = ""
    ) -> None:
        """A test begins on ``gpu``; ``limited``: the allocator runs out of memory where the card would.

        What imports have allocated stays: it is there in any process that runs the test. With a
        ``world_size`` above 1 the process is ``rank`` of as many, as under torchrun; ``rank0_broadcasts``
        is the result of rank 0's ``broadcasts``.
        """
        # PyTorch makes its pool of threads anew after a fork, at first use; two threads of the engine that
        # are first at once abort the process (pthreadpool, caffe2/utils/threadpool/pthreadpool-cpp.cc, 2.13)
        torch.set_num_threads(torch.get_num_threads())
        self.gpu = gpu
        begin_ranks = partial(self._begin_ranks, rank, world_size, rank0_broadcasts)
        if world_size > 1:
            begin_ranks()
        else:
            begin_with_group_of_one(begin_ranks)
        self._limited = limited
        self._mode.charges.move_to(gpu)
        refuse_in_forks(self.ledger)
        self.ledger.allocator.set_capacity(gpu.usable_bytes if limited else None)
        self._began = time.perf_counter()

    def _begin_ranks(self, rank: int, world_size: int, rank0_broadcasts: str) -> None:
        self._cluster = VirtualCluster(rank, world_size, self._tracker, self._mode, rank0_broadcasts)
        self._cluster.begin()

    def representative_ranks(self) -> list[int]:
        """After rank 0's run: the further ranks whose figures must be known, so that the worst is."""
        return self._cluster.representative_ranks() if self._cluster is not None else []

    def broadcasts(self) -> str:
        """After rank 0's run: what it has broadcast, as text."""
        return self._cluster.broadcasts() if self._cluster is not None else ""

    def rank_caveats(self) -> list[Caveat]:
        """What is taken for granted of the ranks that are no representatives; none if there are none."""
        return self._cluster.rank_caveats() if self._cluster is not None else []

    def body_ended(self) -> None:
        """The test's body has ended, and its fixtures have not: gradients are known while parameters live."""
        self._tracker.roles.see_gradients()

    def end(self, *, metric: str, root: str) -> MemoryReport:
        """The test has ended, its fixtures with it: what it took."""
        self._tracker.roles.see_gradients()
        nccl = nccl_share(self.gpu, self._mode.collectives.groups.seen.values(), metric)
        return memory_report(
            self.ledger,
            metric=metric,
            context_bytes=self.gpu.context_bytes,
            nccl_bytes=nccl.size_bytes,
            root=root,
            caveats=(
                *self._mode.reads.caveats(root),
                *self._mode.shapes.caveats(root),
                *caveats_of(HOW, [*self._triton.texts(), *self._regions.assumptions(root)]),
                *(note for note in self._notes if not note.kind.is_missing),
                *context_caveats(self.gpu, metric, limited=self._limited),
                *self._mode.charges.unmodelled.caveats(root),
                *(note for note in self._notes if note.kind.is_missing),
                *caveats_of(OTHER_PATH, self._absent.texts(self._tracker.source.found(), root)),
                *nccl.caveats,
            ),
            seconds=time.perf_counter() - self._began,
            rank=place().rank,
            host=host_report(self._tracker.host, root=root, rank=place().rank),
            lives=self._lives,
            device="fake",
        )

    def snapshot(self) -> dict[str, Any] | None:
        """The run so far, as ``torch.cuda.memory._snapshot``; None without ``records`` or allocations."""
        alloc_conf = next((os.environ[name] for name in VARIABLES if name in os.environ), "")
        return self._recording.snapshot(alloc_conf) if self._recording is not None else None

    def _record(self) -> Recording:
        """Keep what a snapshot needs from here on."""
        if self._recording is None:
            self._recording = Recording(self._tracker)
        return self._recording

    def _start_tracker(self) -> None:
        settings = AllocatorSettings.from_environment(os.environ)
        allocator = CachingAllocator(settings, segment_address=segment_addresses(torch_release()))
        self._tracker = Tracker(Ledger(allocator), users_source(), on_cuda)
        if self._records:
            self._record()
            self._lives = Lives(self._tracker.ledger)
        self._tracker.install()
        self._mode.tracker = self._tracker
        self._mode.reads.source = self._mode.shapes.source = self._tracker.source

    def _loaded(self, tensor: torch.Tensor) -> None:
        if on_cuda(tensor):
            tensor.fake_device = own_device()  # type: ignore[attr-defined] # 2.11 leaves out the number
            self._tracker.saw(tensor, "torch.load", ())

    def _resized(self, storage: torch.UntypedStorage) -> None:
        if self._tracker.follows(storage):
            self._tracker.resized(storage, "UntypedStorage.resize_")

    def _noting(self, kind: CaveatKind) -> Callable[[str], None]:
        def note(text: str) -> None:
            self._notes[Caveat(kind, text)] = None

        return note

    def _note_eager(self, text: str) -> None:
        self._noting(HOST_PATH if text == HOST else OTHER_PATH)(text)

    def _attention(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        from .attention import attention

        return attention(*args, capability=self.gpu.capability, **kwargs)
