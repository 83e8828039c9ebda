"""What Apex's kernel allocates (csrc/megatron): a result as its input is; backward writes into its gradient."""

import torch


def forward(inputs, scale):
    return torch.empty_like(inputs)


def backward(gradients, softmax, scale):
    return gradients
