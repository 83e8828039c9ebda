"""DTensor's own dry runs: an operator on tensors of the global shape, to find what shape comes out.

No rank allocates them; only what the operator does on the rank's own shards counts.
"""

from __future__ import annotations

from typing import Any

from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily


def install_global_shapes() -> None:
    """Let sharding be worked out off the virtual device."""
    from torch.distributed.tensor._sharding_prop import ShardingPropagator

    kind: Any = ShardingPropagator
    original = kind._propagate_tensor_meta_non_cached
    aside = FakeTensorMode()  # one for all: what it has worked out of an operator it knows the next time

    def propagate(propagator: Any, *args: Any, **kwargs: Any) -> Any:
        with unset_fake_temporarily(), aside:
            return original(propagator, *args, **kwargs)

    kind._propagate_tensor_meta_non_cached = propagate
