"""Pools of threads: a job that is soon done is done before its caller goes on.

Which of several threads allocates first, and whether a result is there before the one before it is used, is
up to the machine's speed: a figure would be another in each session. Here a pool is faster than its user,
and jobs that free memory while they run are named: on a card several may have it at once.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Final
from weakref import WeakSet

from ....caveats import POOL, Caveat
from ...real.observer import allocated_bytes

#: What takes longer may wait for what its caller does next: no further job of its pool is waited for.
_SOON_SECONDS: Final = 1.0
_IN_TURN: Final = (
    "jobs of a pool of threads taken to run one after another: what each frees before it ends is there for "
    "several of them at once on a card, if they overlap"
)


class Pools:
    """The pools of threads of this process, which runs one test."""

    def __init__(self) -> None:
        self._has_freed = False

    def install(self) -> None:
        """From here on each pool is done with a job before it is given the next."""
        submit = ThreadPoolExecutor.submit
        slow = WeakSet[ThreadPoolExecutor]()

        def submit_and_wait(
            pool: ThreadPoolExecutor, job: Callable[..., Any], /, *args: Any, **kwargs: Any
        ) -> Future[Any]:
            future = submit(pool, self._watched(job), *args, **kwargs)
            if pool not in slow and wait([future], _SOON_SECONDS).not_done:
                slow.add(pool)
            return future

        ThreadPoolExecutor.submit = submit_and_wait  # type: ignore[assignment, method-assign]

    def caveats(self) -> list[Caveat]:
        """That jobs do not overlap, where it would matter."""
        return [Caveat(POOL, _IN_TURN)] if self._has_freed else []

    def _watched(self, job: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            before = allocated_bytes("freed")
            try:
                return job(*args, **kwargs)
            finally:
                self._has_freed |= allocated_bytes("freed") > before

        return run
