"""What an optimizer makes in its step and keeps outside of its states is temporary, and no activation."""

import torch
from torch import nn

MIB = 2**20


class Scratching(torch.optim.SGD):
    """Makes a buffer of 16 MiB anew in each step, and keeps it until the next."""

    def step(self, closure=None):
        self.scratch = torch.zeros(4 * MIB, device="cuda")
        return super().step(closure)


def two_steps():
    model = nn.Linear(1024, 1024, bias=False, device="cuda")
    optimizer = Scratching(model.parameters(), lr=0.1)
    for _ in range(2):
        model(torch.randn(1, 1024, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def test_a_buffer_of_the_step_is_temporary_though_the_next_backward_finds_it_there(trace):
    traced = trace(two_steps)

    # the peak is in the second step: the new buffer beside the old one
    assert (traced.temporaries, traced.activations) == (2 * 16 * MIB, 0)
    assert traced.parameters == traced.gradients == 4 * MIB
