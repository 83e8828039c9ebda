"""GPT-2 small as it is really trained: bf16 autocast, gradient accumulation, clipping, AdamW.

The same training twice: as a loop, and declared with train_step. One budget holds both.
"""

import pytest
import torch
from models.small_gpt import GPT, GPTConfig

from pytest_membudget.steps import train_step

pytestmark = pytest.mark.mem_budget(gib=5.7)
MICRO_BATCHES, BATCH_SIZE, BLOCK_SIZE = 4, 4, 1024


def random_tokens():
    text = torch.randint(0, 50257, (BATCH_SIZE, BLOCK_SIZE + 1), device="cuda")
    return text[:, :-1], text[:, 1:]  # inputs, and at each position the token that comes next


def test_training_in_a_loop():
    model = GPT(GPTConfig()).cuda()
    assert sum(parameter.numel() for parameter in model.parameters()) == 124_439_808
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, weight_decay=0.1)

    for _ in range(2):  # the first step creates the optimizer's states, the second runs with them
        for _ in range(MICRO_BATCHES):
            tokens, targets = random_tokens()
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = model(tokens, targets) / MICRO_BATCHES
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


def test_training_declared():
    model = GPT(GPTConfig()).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, weight_decay=0.1)
    batches = (random_tokens() for _ in range(2 * MICRO_BATCHES))

    for _ in range(2):
        train_step(
            model,
            optimizer,
            batches,
            accumulate=MICRO_BATCHES,
            max_grad_norm=1.0,
            autocast_dtype=torch.bfloat16,
        )
