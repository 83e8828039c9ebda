"""One captured step on the device of this process: what the whole of it requested."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.steps.step import Step

from .recording import phases_of

_SEED = 0


def run_step(order: Mapping[str, Any], side: Any) -> dict[str, Any]:
    """The step as one sample whose forward is all of it, with the allocator's own peaks."""
    import torch

    step = Step.from_json(order["step"])
    torch.manual_seed(_SEED)
    side.begin()
    step.body()
    torch.cuda.synchronize()
    (phase,) = phases_of(side.events(), [0])
    nothing = {"requests_bytes": [], "peak_bytes": 0}
    sample = {"sample": step.text(), "error": "", "assumed": side.assumed(), "backward": nothing}
    sample["forward"] = phase.to_json()
    peaks = side.peaks()
    return {"outcome": "ok", "samples": [sample], "peaks": peaks, "not_modelled": side.not_modelled()}
