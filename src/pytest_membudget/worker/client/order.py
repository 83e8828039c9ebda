"""Order: what a worker is started for and with; and its environment variables."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Final

from ...budgets.marked_test import Program
from ...devices.choice import StandIn
from ...devices.stand_in.environment import stand_in_environment
from ...devices.torch_build.build import environments_torch
from ...hardware.gpus import find_gpu
from ...names import ALLOC_CONF
from ..protocol import Start

#: The allocator's own functions are local symbols, which the default mode cannot name (torch 2.11).
SYMBOLS: Final = {"TORCH_SYMBOLIZE_MODE": "fast"}
#: The variable with folders that Python imports from.
_IMPORT_PATH = "PYTHONPATH"


#: The keys of all tests of a file, for files of which a session has collected all.
Collected = Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class Order(Start):
    """What a worker is started for, and what its process is started with."""

    stand_in: StandIn | None = None
    """None on a real card."""
    template: str = ""
    """Where copies of a process can be had that is ready to be a worker; empty for none."""
    environment: tuple[tuple[str, str], ...] = ()
    """Variables of its process, above those of the session: a script's own."""
    collected: Collected = field(default_factory=dict)
    """The tests that the session has collected."""

    def start(self, scratch: str, stack_file: str = "") -> Start:
        """What is sent to the process."""
        sent = Start(**{one.name: getattr(self, one.name) for one in fields(Start)})
        return replace(sent, scratch=scratch, stack_file=stack_file)


def for_program(order: Order, program: Program | None) -> Order:
    """``order`` for workers that run ``program``, or tests where it is None.

    Its variables are there before anything is imported, as in a process that runs it alone; the folders of
    its ``PYTHONPATH`` are those that are found from its own.
    """
    if program is None:
        return replace(order, environment=())
    variables = dict(program.environment)
    if _IMPORT_PATH in variables:
        folders = filter(None, variables[_IMPORT_PATH].split(os.pathsep))
        variables[_IMPORT_PATH] = os.pathsep.join(os.path.join(program.cwd, folder) for folder in folders)
    return replace(order, environment=tuple(variables.items()))


def with_expandable_segments(order: Order) -> Order:
    """``order`` with expandable segments in its allocator, in addition to the session's settings."""
    variables = {**os.environ, **dict(order.environment)}
    name = next((name for name in ALLOC_CONF if name in variables), ALLOC_CONF[-1])
    settings = [text for text in (variables.get(name), "expandable_segments:True") if text]
    return replace(order, environment=(*order.environment, (name, ",".join(settings))))


def worker_import_path(order: Order) -> list[str]:
    """The import path of a worker for ``order``: with the torch of its device before all.

    Then what its program has as ``PYTHONPATH``.
    """
    torch = order.stand_in.torch if order.stand_in is not None else environments_torch()
    first = [] if torch is None or torch == environments_torch() else map(str, torch.import_path)
    programs = filter(None, dict(order.environment).get(_IMPORT_PATH, "").split(os.pathsep))
    return [*first, *programs, *map(os.path.abspath, sys.path)]


def worker_environment(order: Order, scratch: str) -> dict[str, str]:
    """The environment variables of a worker for ``order``; ``scratch``: the folder of its temporary files."""
    own = {**os.environ, **dict(order.environment)}
    if order.stand_in is not None:
        libraries, torch = order.stand_in.libraries, order.stand_in.torch
        card = find_gpu(order.gpu)
        return stand_in_environment(libraries, torch, card, order.cards, own, unlimited=True, scratch=scratch)
    # torch.cuda.is_available() must not initialize the driver, which does not survive a fork
    return {**SYMBOLS, **own, "PYTORCH_NVML_BASED_CUDA_CHECK": "1"}


def started_with(order: Order, scratch: str) -> tuple[dict[str, str], list[str]]:
    """The environment variables and the import path of a process that is started for ``order`` now."""
    return worker_environment(order, scratch), worker_import_path(order)
