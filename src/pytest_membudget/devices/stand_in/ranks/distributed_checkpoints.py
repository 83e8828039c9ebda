"""Distributed checkpoints: each rank plans for itself alone, as the others are not there."""

from collections.abc import Callable
from typing import Any


def install_checkpoints(utils: Any) -> None:
    """Let no rank wait for a plan in ``utils``, the module ``torch.distributed.checkpoint.utils``.

    What all ranks have each of them writes: on a card it is shared out, and each tensor is on the host once.
    """
    kind: Any = utils._DistWrapper

    def checked(ranks: Any, step: str, function: Callable[[], Any]) -> Any:
        try:
            return function()
        except BaseException as error:
            raise utils.CheckpointException(step, {ranks.rank: utils._wrap_exception(error)}) from None

    def reduce_scatter(ranks: Any, step: str, map_fun: Callable[[], Any], reduce_fun: Any) -> Any:
        return checked(ranks, step, lambda: reduce_fun([map_fun()])[0])

    def all_reduce(ranks: Any, step: str, map_fun: Callable[[], Any], reduce_fun: Any) -> Any:
        return checked(ranks, step, lambda: reduce_fun([map_fun()]))

    def broadcast(ranks: Any, step: str, map_fun: Callable[[], Any]) -> Any:
        return checked(ranks, step, map_fun)

    kind.reduce_scatter, kind.all_reduce, kind.broadcast = reduce_scatter, all_reduce, broadcast
