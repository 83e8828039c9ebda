"""Names that pytest and the user see: the marker, the plugins, and variables."""

import os
from collections.abc import Mapping
from typing import Any, Final

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


def alloc_conf_of(environment: Mapping[str, str]) -> str:
    """The allocator's settings in ``environment``, by PyTorch's rules; empty for none."""
    return next((environment[name] for name in ALLOC_CONF if environment.get(name)), "")


#: Options of pytest and plugins that write files, start processes, select tests or wait for input: off where
#: a worker runs tests.
OFF_IN_WORKERS: Final[dict[str, Any]] = {
    # a test's process keeps its output: pytest would read all of it, even a gigabyte
    "capture": "no",
    "last_failed_no_failures": "all",
    "log_file": os.devnull,
    "maxfail": 0,
    **dict.fromkeys(("keyword", "markexpr"), ""),
    **dict.fromkeys(("debug", "deselect", "pastebin", "xmlpath"), None),
    **dict.fromkeys(("cacheclear", "collectonly", "failedfirst", "lf", "newfirst", "pyargs"), False),
    **dict.fromkeys(("setuponly", "setupplan", "setupshow"), False),
    **dict.fromkeys(("stepwise", "stepwise_skip", "trace", "usepdb"), False),
    # other plugins' reports
    **dict.fromkeys(("allure_report_dir", "htmlpath", "report_log"), None),
    **dict.fromkeys(("clean_alluredir", "json_report", "memray"), False),
    # pytest-xdist and pytest-forked
    "dist": "no",
    "numprocesses": None,
    "tx": [],
    **dict.fromkeys(("distload", "forked", "looponfail"), False),
    # pytest-rerunfailures: a trace gives the same each time
    "reruns": 0,
    # pytest-cov
    "cov_source": [],
    "no_cov": True,
}
