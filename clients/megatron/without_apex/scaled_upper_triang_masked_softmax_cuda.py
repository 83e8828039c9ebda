"""What Apex's kernel allocates (csrc/megatron): what its input has; backward writes into its gradient."""

import torch


def forward(inputs, scale):
    return torch.empty_like(inputs)


def backward(gradients, softmax, scale):
    return gradients
