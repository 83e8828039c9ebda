"""Components: what memory is for (parameters, activations, ...), in the order of reports."""

from typing import Final

PARAMETERS: Final = "parameters"
FROZEN_PARAMETERS: Final = "frozen_parameters"
BUFFERS: Final = "buffers"
GRADIENTS: Final = "gradients"
OPTIMIZER_STATES: Final = "optimizer_states"
ACTIVATIONS: Final = "activations"
INPUTS: Final = "inputs"
TEMPORARIES: Final = "temporaries"
COLLECTIVES: Final = "collectives"
WORKSPACES: Final = "workspaces"
UNATTRIBUTED: Final = "unattributed"
ROUNDING: Final = "rounding"
CACHED: Final = "cached"
CONTEXT: Final = "context"
NCCL: Final = "nccl"

TENSOR_COMPONENTS: Final = (
    PARAMETERS,
    FROZEN_PARAMETERS,
    BUFFERS,
    GRADIENTS,
    OPTIMIZER_STATES,
    ACTIVATIONS,
    INPUTS,
    TEMPORARIES,
    COLLECTIVES,
    WORKSPACES,
    UNATTRIBUTED,
)
"""Components of what was requested from the allocator."""

COMPONENTS: Final = (*TENSOR_COMPONENTS, ROUNDING, CACHED, CONTEXT, NCCL)
"""All of them: requests, then what turns requests into allocated, reserved and device memory."""

METRICS: Final = ("allocated", "reserved", "device")
"""The totals a budget can be held to."""

METRICS_WITH: Final = {CACHED: ("reserved", "device"), CONTEXT: ("device",), NCCL: ("device",)}
"""Of components that only some of the metrics contain, which do; the others are part of each."""
