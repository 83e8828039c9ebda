"""Models small enough to train twice in a test."""

from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import nn

VOCABULARY, WIDTH = 11, 6


class Regressor(nn.Module):
    """Returns what ``answer`` makes of its mean squared error; small enough to train twice."""

    def __init__(self, answer=lambda loss: loss):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1))
        self.answer = answer

    def forward(self, inputs, targets=None, scale=1.0):
        output = self.layers(inputs) * scale
        return output if targets is None else self.answer(F.mse_loss(output, targets))


class LanguageModel(nn.Module):
    """Logits from the tokens alone: a table, so that a position's logits depend on nothing else."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, WIDTH)
        self.dropout = nn.Dropout(0.5)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, input_ids):
        self.logits = self.head(self.dropout(self.table(input_ids)))
        return SimpleNamespace(logits=self.logits)


class RunningSum(nn.Module):
    """Logits that depend on every token so far; ``past_key_values`` is the sum of their vectors."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, VOCABULARY)

    def forward(self, input_ids, past_key_values=None, use_cache=False):
        vectors = self.table(input_ids)
        if past_key_values is not None:
            vectors = torch.cat([past_key_values, vectors], dim=1)
        sums = vectors.cumsum(1)
        return {
            "logits": sums[:, -input_ids.shape[1] :],
            "past_key_values": sums[:, -1:] if use_cache else None,
        }
