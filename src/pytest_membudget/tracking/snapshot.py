"""Writes a recorded run in the format of ``torch.cuda.memory._snapshot``, in plain Python types.

The keys are those of ``torch/csrc/cuda/memory_snapshot.cpp`` (read in 2.13), so that PyTorch's viewer
(pytorch.org/memory_viz) and ``torch/cuda/_memory_viz.py`` open what is made here as they open their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..allocator.blocks import ACTIVE_ALLOCATED, INACTIVE, SegmentState
from ..allocator.history import NO_REQUEST, DeviceHistory, HistoryEvent, HistoryLog
from ..allocator.rounding import ROUNDUP_INTERVALS
from ..allocator.settings import AllocatorSettings

Frames = list[dict[str, Any]]
"""``{"filename", "line", "name"}``, the innermost first. Share lists and frames: a pickle has each once."""


def snapshot_of(
    history: DeviceHistory,
    frames_of: Callable[[int], Frames],
    purposes: Mapping[int, str],
    log: HistoryLog,
    alloc_conf: str,
    began_us: int,
) -> dict[str, Any]:
    """The dictionary of a snapshot.

    ``frames_of`` and ``purposes`` have the stack and the text (``user_metadata``) of a request's number;
    ``log`` the requests of active blocks and of segments.
    ``alloc_conf`` is PYTORCH_ALLOC_CONF as written; ``began_us`` the time of the first event in
    microseconds: the others follow one microsecond apart, since a run on a virtual device has no clock.
    """
    nothing: Frames = []

    def frames(request: int) -> Frames:
        return nothing if request == NO_REQUEST else frames_of(request)

    def frames_at(requests: dict[int, int]) -> Callable[[int], Frames]:
        return lambda address: frames(requests.get(address, NO_REQUEST))

    of_segment, of_block = frames_at(log.segment_requests), frames_at(log.requests)
    return {
        "segments": [segment_dict(state, of_segment(state.address), of_block) for state in history.segments],
        "device_traces": [
            [
                _entry(event, frames(event.request), purposes.get(event.request, ""), began_us + number)
                for number, event in enumerate(history.events)
            ]
        ],
        "allocator_settings": _settings(history.settings, alloc_conf),
        "external_annotations": [],
    }


def segment_dict(state: SegmentState, frames: Frames, frames_at: Callable[[int], Frames]) -> dict[str, Any]:
    """One segment with its blocks; ``frames_at`` those of the active block at an address."""
    active = [block for block in state.blocks if block.state != INACTIVE]
    return {
        "device": 0,
        "address": state.address,
        "total_size": state.size_bytes,
        "allocated_size": sum(block.size_bytes for block in active if block.state == ACTIVE_ALLOCATED),
        "active_size": sum(block.size_bytes for block in active),
        "requested_size": sum(block.requested_bytes for block in active),
        "stream": state.stream,
        "segment_type": "small" if state.is_small else "large",
        "segment_pool_id": (0, 0),
        "is_expandable": state.is_expandable,
        "frames": frames,
        "blocks": [
            {
                "address": block.address,
                "size": block.size_bytes,
                "requested_size": block.requested_bytes,
                "state": block.state,
                "frames": frames_at(block.address) if block.state != INACTIVE else [],
            }
            for block in state.blocks
        ],
    }


def _entry(event: HistoryEvent, frames: Frames, purpose: str, time_us: int) -> dict[str, Any]:
    return {
        "action": event.action,
        "device_free" if event.action == "oom" else "addr": event.address,
        "size": event.size_bytes,
        "stream": event.stream,
        "compile_context": "N/A",
        "user_metadata": event.text or ("" if event.action.startswith("segment") else purpose),
        "time_us": time_us,
        "frames": frames,
    }


def _settings(settings: AllocatorSettings, alloc_conf: str) -> dict[str, Any]:
    limit_bytes = settings.max_split_size_bytes
    divisions = settings.roundup_power2_divisions or (0,) * ROUNDUP_INTERVALS
    return {
        "PYTORCH_CUDA_ALLOC_CONF": alloc_conf,
        "max_split_size": -1 if limit_bytes is None else limit_bytes,
        "garbage_collection_threshold": settings.garbage_collection_threshold,
        "expandable_segments": settings.expandable_segments,
        # settings of host memory and of locks, at their defaults
        "pinned_num_register_threads": 1,
        "release_lock_on_cudamalloc": False,
        "pinned_use_cuda_host_register": False,
        "graph_capture_record_stream_reuse": False,
        "roundup_power2_divisions": {str(2**power): parts for power, parts in enumerate(divisions)},
    }
