"""Pools of threads: a job that is soon done is done before its caller goes on.

Which of several threads allocates first, and whether a result is there before the one before it is used, is
up to the machine's speed: a figure would be another in each session. Here a pool is faster than its user.
"""

from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Final
from weakref import WeakSet

#: What takes longer may wait for what its caller does next: no further job of its pool is waited for.
_SOON_SECONDS: Final = 1.0


def finish_jobs_of_pools() -> None:
    """From here on each pool of this process is done with a job before it is given the next."""
    submit = ThreadPoolExecutor.submit
    slow = WeakSet[ThreadPoolExecutor]()

    def submit_and_wait(pool: ThreadPoolExecutor, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future = submit(pool, *args, **kwargs)
        if pool not in slow and wait([future], _SOON_SECONDS).not_done:
            slow.add(pool)
        return future

    ThreadPoolExecutor.submit = submit_and_wait  # type: ignore[assignment]
