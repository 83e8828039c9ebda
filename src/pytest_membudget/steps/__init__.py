"""Parts of a training step that take less memory, in ordinary PyTorch.

Nothing here knows of budgets or devices: each function does what the loop in its docstring does, wherever the
model is, and keeps no more alive than that.

``forward_kl``              the divergence of a student from its teacher, by chunks of the sequence
``linear_cross_entropy``    head and cross entropy by chunks of tokens
``optimizer_in_backward``   each parameter's step as soon as its gradient is there
``OptimizerInBackward``     what that returns: the optimizers, and a way to take the hooks off
"""

from __future__ import annotations

from .in_backward import OptimizerInBackward, optimizer_in_backward
from .losses import forward_kl, linear_cross_entropy

__all__ = ["OptimizerInBackward", "forward_kl", "linear_cross_entropy", "optimizer_in_backward"]
