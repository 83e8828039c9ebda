"""``torch.distributed.rpc`` of a rank whose other ranks are not there: it begins and ends, and calls none."""

from __future__ import annotations

from typing import Any

from ..values.refusals import refusal

_CALLS = ("rpc_sync", "rpc_async", "remote")


def install_remote_calls() -> None:
    """Let ``init_rpc`` and ``shutdown``, which wait for the other ranks, return; calls are refused."""
    from torch.distributed import rpc

    own: Any = rpc
    for name in ("init_rpc", "shutdown"):
        setattr(own, name, lambda *args, **kwargs: None)
    for name in _CALLS:
        setattr(own, name, _refuses(name))


def _refuses(name: str) -> Any:
    text = f"torch.distributed.rpc.{name}: a rank is estimated without the others, which would answer"

    def refuse(*args: object, **kwargs: object) -> Any:
        raise refusal(text)

    return refuse
