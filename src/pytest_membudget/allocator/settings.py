"""What ``PYTORCH_ALLOC_CONF`` (older: ``PYTORCH_CUDA_ALLOC_CONF``) sets, read as PyTorch reads it.

``c10/core/AllocatorConfig.{h,cpp}`` and ``c10/cuda/CUDAAllocatorConfig.{h,cpp}``, 2.11 to 2.15.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ..errors import NotAvailable, UsageMistake
from ..units import MIB
from .rounding import LARGE_SEGMENT_BYTES, MIN_LARGE_BYTES, ROUNDUP_INTERVALS

WITHOUT_EFFECT: Final = frozenset(
    {
        "expandable_segments_reserve",  # from 2.15; address space only
        "expandable_segments_reserve_by_class",
        "graph_capture_record_stream_reuse",
        "pinned_free_catch_all",  # from 2.13; host memory, as all pinned_*
        "pinned_max_cached_size_mb",  # from 2.15
        "pinned_max_round_threshold_mb",
        "pinned_num_register_threads",
        "pinned_reserve_segment_size_mb",
        "pinned_use_background_threads",
        "pinned_use_cuda_host_register",
        "pinned_use_hip_host_register",
        "release_lock_on_cudamalloc",
        "release_lock_on_hipmalloc",
    }
)
"""Keys of PyTorch that change no size of device memory: accepted, their values not looked at."""

_ITEM = re.compile(r"(?P<key>[^,:\[\]]+):(?:\[(?P<pairs>[^\[\]]*)\]|(?P<value>[^,:\[\]]+))(?:,|$)")
_PAIR = re.compile(r"(?P<key>[^,:]+):(?P<value>[^,:]+)(?:,|$)")


@dataclass(frozen=True, slots=True)
class AllocatorSettings:
    """The settings that change what is reserved or allocated; the defaults are PyTorch's.

    ``roundup_power2_divisions``: the divisions of one power of two after the other, the first for 1 MiB
    and less, the last for its own and more; empty: off. ``max_non_split_rounding_bytes``: how much larger
    than a request a block may be that ``max_split_size_bytes`` forbids to split; None: a large segment.
    """

    expandable_segments: bool = False
    roundup_power2_divisions: tuple[int, ...] = ()
    max_split_size_bytes: int | None = None
    max_non_split_rounding_bytes: int | None = None
    large_segment_size_bytes: int = LARGE_SEGMENT_BYTES

    @classmethod
    def parse(cls, text: str, source: str = "PYTORCH_ALLOC_CONF") -> AllocatorSettings:
        """Read ``"key:value,key:[key:value,...]"``; errors name ``source``.

        ``UsageMistake`` for what PyTorch would refuse, and for numbers with more behind them, which it
        cuts off; ``NotAvailable`` for ``backend:cudaMallocAsync``, another allocator altogether.
        """
        written = _Written(_items(text, source), source)
        written.check_backend()
        large_segment = written.mebibytes("large_segment_size_mb", MIN_LARGE_BYTES + MIB)
        large_segment = LARGE_SEGMENT_BYTES if large_segment is None else large_segment
        settings = cls(
            expandable_segments=written.boolean("expandable_segments"),
            roundup_power2_divisions=written.divisions("roundup_power2_divisions"),
            max_split_size_bytes=written.mebibytes("max_split_size_mb", large_segment),
            max_non_split_rounding_bytes=written.mebibytes("max_non_split_rounding_mb", large_segment),
            large_segment_size_bytes=large_segment,
        )
        # without effect as long as the device is not full
        written.check_fraction("garbage_collection_threshold", "()")
        written.check_fraction("per_process_memory_fraction", "[]")
        written.boolean("throw_on_cudamalloc_oom")
        written.check_keys()
        return settings


class _Written:
    """The keys and values as they were written, each looked up once."""

    def __init__(self, values: Mapping[str, str], source: str) -> None:
        self._values = values
        self._source = source
        self._known = set(WITHOUT_EFFECT)

    def check_backend(self) -> None:
        backend = self._value("backend")
        if backend == "cudaMallocAsync":
            raise NotAvailable(
                f"{self._source}: 'backend:{backend}' is an allocator inside the CUDA driver that is not "
                "modelled; write 'backend:native', or leave the key out"
            )
        if backend not in (None, "native"):
            raise self._mistake("backend", "is unknown to PyTorch", "'native'")

    def check_keys(self) -> None:
        for key in self._values:
            if key not in self._known:
                keys = ", ".join(sorted(self._known))
                raise UsageMistake(
                    f"{self._source}: {key!r} is not a key that PyTorch knows; it knows {keys}"
                )

    def boolean(self, key: str) -> bool:
        value = self._value(key)
        if value not in (None, "True", "False"):
            raise self._mistake(key, "is not a boolean", "'True' or 'False'")
        return value == "True"

    def mebibytes(self, key: str, least_bytes: int) -> int | None:
        value = self._value(key)
        if value is None:
            return None
        if not value.isdecimal() or int(value) * MIB < least_bytes:
            raise self._mistake(
                key, "is too small or not a number", f"whole MiB, {least_bytes // MIB} or more"
            )
        return int(value) * MIB

    def check_fraction(self, key: str, ends: str) -> None:
        value = self._value(key)
        if value is None:
            return
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        if not 0 <= number <= 1 or (ends == "()" and number in (0, 1)):
            raise self._mistake(key, "is no such fraction", f"a number in {ends[0]}0, 1{ends[1]}")

    def divisions(self, key: str) -> tuple[int, ...]:
        """One number for all sizes, or ``[256:1,512:2,>:4]``: from how many MiB on, how many divisions."""
        value = self._value(key)
        if value is None:
            return ()
        table = [0] * ROUNDUP_INTERVALS
        if not value.startswith("["):
            table = [self._power_of_two(key, value)] * ROUNDUP_INTERVALS
        last = 0
        for number, (boundary, parts) in enumerate(self._pairs(key, value)):
            divisions = 0 if parts == "0" else self._power_of_two(key, parts)
            if boundary == ">":
                table[last + 1 :] = [divisions] * (ROUNDUP_INTERVALS - last - 1)
                continue
            last = min(self._power_of_two(key, boundary).bit_length(), ROUNDUP_INTERVALS) - 1
            if number == 0:  # the first is also for everything below it
                table[:last] = [divisions] * last
            table[last] = divisions
        return tuple(table) if max(table) > 1 else ()

    def _pairs(self, key: str, value: str) -> list[tuple[str, str]]:
        rest = value[1:-1] if value.startswith("[") else ""
        pairs = []
        while rest:
            match = _PAIR.match(rest)
            if match is None:
                raise self._mistake(key, f"has {rest!r}, not 'MiB:divisions'", "'[256:1,512:2,>:4]', say")
            pairs.append((match["key"], match["value"]))
            rest = rest[match.end() :]
        return pairs

    def _power_of_two(self, key: str, number: str) -> int:
        if not number.isdecimal() or int(number).bit_count() != 1:
            raise self._mistake(key, f"has {number!r}, not a power of two", "1, 2, 4, 8, ...")
        return int(number)

    def _value(self, key: str) -> str | None:
        self._known.add(key)
        return self._values.get(key)

    def _mistake(self, key: str, wrong: str, instead: str) -> UsageMistake:
        return UsageMistake(f"{self._source}: '{key}:{self._values[key]}' {wrong}; write {instead}")


def _items(text: str, source: str) -> dict[str, str]:
    """The values by key, white space dropped, lists still with their brackets; of two, the later."""
    rest = re.sub(r"\s", "", text)
    items = {}
    while rest:
        match = _ITEM.match(rest)
        if match is None:
            raise UsageMistake(
                f"{source}: cannot read {text!r} from {rest!r} on; write 'key:value' or "
                "'key:[key:value,...]', separated by commas"
            )
        items[match["key"]] = match["value"] if match["pairs"] is None else f"[{match['pairs']}]"
        rest = rest[match.end() :]
    return items
