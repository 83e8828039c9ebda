"""The catalogue of cards: their names, and their properties as PyTorch sees them."""

import difflib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any, Final, Literal

from ..errors import UsageMistake
from ..units import MIB, gib_text
from ..user_input.fields import described
from ..user_input.kinds import choice, list_of, several, text, whole

#: The environment variable by which a session passes custom GPUs to its workers: JSON, entries by
#: name as the catalogue has them.
CUSTOM_GPUS: Final = "MEMBUDGET_OWN_GPUS"
_SEPARATORS: Final = re.compile(r"[\s_-]+")


@dataclass(frozen=True, slots=True)
class Context:
    """A measured size of one process's memory outside PyTorch's allocator: the CUDA context."""

    size_bytes: int
    cuda: str | None
    """The CUDA that PyTorch was built for, where the source says so."""


@dataclass(frozen=True, slots=True)
class Properties:
    """What decides between kernels, not how much memory there is; by default typical."""

    name: str
    """As the driver gives it."""
    l2_kib: int = 40 * 1024
    clock_mhz: int = 1500
    memory_clock_mhz: int = 5000
    memory_bus_bits: int = 384


@dataclass(frozen=True, slots=True)
class Gpu:
    """One device as PyTorch sees it; the catalogue has every figure's public source."""

    name: str
    """As reports write it, e.g. ``"H100-80GB"``."""
    properties: Properties
    total_bytes: int = described(
        "`torch.cuda.get_device_properties(0).total_memory`.", kind=whole(example=25_282_281_472)
    )
    capability: tuple[int, int] = described(
        "`torch.cuda.get_device_capability()`.", kind=several(whole(0, example=9), [9, 0])
    )
    multiprocessor_count: int = described("Of the same properties.", kind=whole(example=128))
    context_bytes: int = described(
        "What one process takes outside of PyTorch's allocator: the CUDA context.",
        kind=whole(example=528_482_304),
    )
    context_confidence: Literal["measured", "typical"] = described(
        "How well that is known.", "typical", kind=choice(("measured", "typical"))
    )
    aliases: tuple[str, ...] = described("Other names for it.", (), "none", kind=list_of(text("MY-CARD")))
    contexts: tuple[Context, ...] = ()
    """All that was seen on this card; ``context_bytes`` is the largest of those with a recent CUDA."""

    @property
    def usable_bytes(self) -> int:
        """What a process's allocator can really hold on this card."""
        return self.total_bytes - self.context_bytes

    @property
    def context_assumption(self) -> str:
        """The line of a report that rests on ``context_bytes``: what it is, and how well it is known."""
        seen = [context.size_bytes for context in self.contexts]
        if self.context_confidence == "measured":
            known = "measured on this card"
            if seen and min(seen) < max(seen):
                known += f", where {gib_text(min(seen))} to {gib_text(max(seen))} were seen"
        else:
            known = "typical, not measured on this card"
            for context in self.contexts:
                known += f"; with CUDA {context.cuda} {gib_text(context.size_bytes)} were seen"
        return f"CUDA context of {self.name} taken to be {gib_text(self.context_bytes)} ({known})"


def load_gpus() -> Mapping[str, Gpu]:
    """All known cards by name: the catalogue in its order, then custom GPUs; read once in a process."""
    return _known_gpus(os.environ.get(CUSTOM_GPUS, "{}"))


@cache
def _known_gpus(own: str) -> Mapping[str, Gpu]:
    import yaml  # imported only if a card is looked up

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    text = resources.files(__package__).joinpath("gpus.yaml").read_text(encoding="utf-8")
    cards: Mapping[str, Any] = yaml.load(text, loader)["cards"]
    added = {
        name: {"properties": cards.get(name, {}).get("properties", {}), **entry}
        for name, entry in json.loads(own).items()
    }
    replaced = {normalised_name(name) for name in added}
    kept = {name: entry for name, entry in cards.items() if normalised_name(name) not in replaced}
    return MappingProxyType({name: _gpu(name, entry) for name, entry in {**kept, **added}.items()})


@cache
def _gpus_by_key(own: str) -> Mapping[str, Gpu]:
    gpus = _known_gpus(own)
    return {normalised_name(known): gpu for gpu in gpus.values() for known in (gpu.name, *gpu.aliases)}


def find_gpu(name: str) -> Gpu:
    """The card that ``name`` means, whatever its case and separators (``"rtx 4090"``).

    Raises ``UsageMistake`` for a name that means no card of the catalogue, or several ("A100").
    """
    wanted = normalised_name(name)
    by_key = _gpus_by_key(os.environ.get(CUSTOM_GPUS, "{}"))
    if wanted not in by_key:
        raise UsageMistake(_unknown(name, wanted, by_key))
    return by_key[wanted]


def _gpu(name: str, entry: Mapping[str, Any]) -> Gpu:
    major, minor = entry["capability"]
    return Gpu(
        name=name,
        total_bytes=entry["total_bytes"],
        capability=(major, minor),
        multiprocessor_count=entry["multiprocessor_count"],
        context_bytes=entry["context_bytes"],
        properties=Properties(**{"name": f"NVIDIA {name}", **entry.get("properties", {})}),
        context_confidence=entry.get("context_confidence", "typical"),
        aliases=tuple(entry.get("aliases", ())),
        contexts=tuple(Context(seen["mib"] * MIB, seen.get("cuda")) for seen in entry.get("contexts", ())),
    )


def normalised_name(name: str) -> str:
    """``name`` whatever its case and separators."""
    return _SEPARATORS.sub("-", name.strip()).casefold()


def _unknown(name: str, wanted: str, by_key: Mapping[str, Gpu]) -> str:
    known = f"known cards: {', '.join(load_gpus())}"
    sizes = [gpu.name for gpu in load_gpus().values() if normalised_name(gpu.name).startswith(f"{wanted}-")]
    if sizes:
        return f"{name!r} can mean {' or '.join(sizes)}: write the one you mean; {known}"
    nearest = difflib.get_close_matches(wanted, by_key, n=1, cutoff=0.5)
    hint = f" Did you mean {by_key[nearest[0]].name!r}?" if nearest else ""
    return f"{name!r} is not in the catalogue.{hint} Write one of the {known}"
