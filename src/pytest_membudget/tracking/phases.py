"""The running phase of a step: forward, backward, recomputation or an optimizer's step."""

from __future__ import annotations

import torch

from .record import Phase
from .roles.computed import NO_GRAPH_TASK
from .roles.role_book import RoleBook
from .running_code.modules import ModuleStack


def running_phase(roles: RoleBook, modules: ModuleStack) -> Phase:
    """The running phase: an optimizer may step inside a backward, and its closure runs both passes."""
    task = torch._C._current_graph_task_id()
    if roles.steps and roles.steps[-1].task == task and modules.root_call is None:
        return Phase.OPTIMIZER
    if task == NO_GRAPH_TASK:
        return Phase.FORWARD
    return Phase.RECOMPUTE if torch.is_grad_enabled() else Phase.BACKWARD
