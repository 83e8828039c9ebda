"""Models small enough to train twice in a test."""

import torch.nn.functional as F
from torch import nn

VOCABULARY, WIDTH = 11, 6


class Regressor(nn.Module):
    """Returns its mean squared error."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1))

    def forward(self, inputs, targets):
        return F.mse_loss(self.layers(inputs), targets)
