"""Training and inference steps in ordinary PyTorch: the body of a loop, with a name.

For those who would rather declare a step than write the loop. Nothing here knows of budgets or devices: each
function does what the loop in its docstring does, wherever the model is, and keeps no more alive than that.

``train_step``              forward, backward, clip, step; micro-batches, autocast and scaler if asked for
``distillation_step``       one step of a student towards its teacher
``forward_kl``              the divergence that it minimises, by itself
``linear_cross_entropy``    head and cross entropy by chunks of tokens
``optimizer_in_backward``   each parameter's step as soon as its gradient is there
``OptimizerInBackward``     what that returns: the optimizers, and a way to take the hooks off
``inference_step``          prefill and greedy decoding with a key-value cache
"""

from .infer import inference_step
from .losses import forward_kl, linear_cross_entropy
from .train import OptimizerInBackward, distillation_step, optimizer_in_backward, train_step

__all__ = [
    "OptimizerInBackward",
    "distillation_step",
    "forward_kl",
    "inference_step",
    "linear_cross_entropy",
    "optimizer_in_backward",
    "train_step",
]
