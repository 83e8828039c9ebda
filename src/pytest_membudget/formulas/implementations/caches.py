"""A layer's update of its cache: new keys or values with the old ones, as transformers 5.23.0 does it.

Sizes: ``T`` tokens that attention looks back at, ``N`` those that this update adds to what is kept, ``O``
those that are there twice while old and new are put together (``DynamicLayer.update``: ``torch.cat``).
"""

from __future__ import annotations

from .recorder import Recorder, Value

#: The names of what stays on a tape.
CACHED = ("key cache", "value cache")


def cached(r: Recorder, name: str, x: Value) -> Value:
    """What the cache gives back for ``x``, [b, s, ...]; ``x`` itself where there is none."""
    if r.setting.keys == "s":
        return x
    rest = x.dims.removeprefix("b s ")
    old = r.bytes(f"b O {rest}", x.kind)
    kept = r.run(f"{name} cache", (x,), f"b N {rest}", r.setting.cache_kind, scratch_bytes=old)
    return Value(kept.name, f"b T {rest}", x.kind, trains=False)
