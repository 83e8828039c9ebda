"""All that is done about host tensors in a process on the stand-in."""

from typing import Any

import torch

from ....caveats import Caveat
from ....memory_report import MemoryReport
from ....tracking.running_code.source import users_source
from ...real.observer import RunObserver
from ..values.following import Following
from .hollow import HollowTensors
from .reads import HostReads
from .run import HostRun


class HostTensors:
    """Host tensors of this process: counted from ``install`` on, and not computed where they are large.

    Raises ``UsageMistake`` in a process that was started without the stand-in's library.
    """

    def __init__(self, following: Following, observer: RunObserver) -> None:
        """``following``: of the values on the cards, copies of which lie on the host."""
        self._following = following
        self._reads = HostReads(following, users_source())
        self._hollow = HollowTensors(following, self._reads, observer.roles.computed)
        self._run = HostRun(following.host, observer)

    def install(self) -> None:
        """Change torch for the rest of the process."""
        self._hollow.install()
        self._reads.install()
        self._run.install()
        self._following.see_host = self._run.see
        printing: Any = torch._tensor_str
        printing._str = self._reads.quiet(printing._str)

    def caveats(self, root: str) -> list[Caveat]:
        """The reads of hollow tensors, for the report."""
        return self._reads.caveats(root)

    def report(self, *, root: str, rank: int = 0) -> MemoryReport | None:
        """What the host held at its peak; None if that is not worth a report."""
        return self._run.report(root=root, rank=rank)
