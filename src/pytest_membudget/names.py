"""Names that pytest and the user see: the marker, the plugins, and variables."""

from typing import Final

MARKER: Final = "mem_budget"
#: The plugin of a session with ``--membudget``, of a session without, of a worker's session, and of one that
#: estimates the base of another.
GATE: Final = "membudget-gate"
SKIP: Final = "membudget-skip"
WORKER: Final = "membudget-worker"
BASE: Final = "membudget-base"
#: The plugin of both sessions that marks tests without a mark.
SELECTION: Final = "membudget-selection"

#: What ``--membudget`` estimates: marked tests, or with ``=all`` every test function.
MARKED, ALL = "marked", "all"
#: The variable of a session of which another program reads the figures alone.
FIGURES: Final = "MEMBUDGET_FIGURES"

AUTO, OFF, REQUIRE = "auto", "off", "require"
ON, REFRESH = "on", "refresh"
MEASURES: Final = (AUTO, OFF, REQUIRE)
CACHES: Final = (ON, OFF, REFRESH)
ADVICES: Final = (ON, OFF)
OVER_ALONE: Final = "over"
#: Of which tests a report has snapshots.
SNAPSHOTS: Final = (OFF, OVER_ALONE, ALL)
#: Where PyTorch looks for its allocator's settings, in any build; the first that is set counts
#: (``AcceleratorAllocatorConfig::instance``, 2.13).
ALLOC_CONF: Final = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
