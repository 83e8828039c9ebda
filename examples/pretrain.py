"""Pretrains a small GPT on a file of tokens: a program as it is, which imports nothing of pytest-membudget.

    python pretrain.py --data=tokens.bin --batch-size=4 --steps=1000

``scripts.membudget.yaml`` next to it holds its budget: the same command line, with two steps.
"""

import argparse
import os
import tempfile

import numpy as np
import torch
from models.small_gpt import GPT, GPTConfig
from torch.distributed import destroy_process_group, init_process_group
from torch.nn.parallel import DistributedDataParallel

VOCABULARY = 50257


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", help="uint16 tokens; without it, random ones")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--accumulate", type=int, default=4)
    parser.add_argument("--block-size", type=int, default=1024)
    parser.add_argument("--compile", action="store_true")
    return parser.parse_args()


def random_data():
    path = os.path.join(tempfile.mkdtemp(), "tokens.bin")
    np.random.default_rng(0).integers(0, VOCABULARY, 100_000).astype(np.uint16).tofile(path)
    return path


def batch(path, batch_size, block_size, device):
    data = np.memmap(path, dtype=np.uint16, mode="r")
    starts = torch.randint(len(data) - block_size, (batch_size,))
    rows = [torch.from_numpy(data[start : start + block_size + 1].astype(np.int64)) for start in starts]
    text = torch.stack(rows).pin_memory().to(device, non_blocking=True)
    return text[:, :-1], text[:, 1:]  # inputs, and at each position the token that comes next


def main():
    options = arguments()
    is_distributed = int(os.environ.get("WORLD_SIZE", "1")) > 1
    if is_distributed:
        init_process_group("nccl")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)

    model = GPT(GPTConfig()).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, weight_decay=0.1, fused=True)
    if options.compile:
        model.compile()
    trained = DistributedDataParallel(model, device_ids=[device.index]) if is_distributed else model
    path = options.data or random_data()
    for step in range(options.steps):
        for _ in range(options.accumulate):
            tokens, targets = batch(path, options.batch_size, options.block_size, device)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = trained(tokens, targets) / options.accumulate
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step}: loss {loss.item() * options.accumulate:.3f}")
    if is_distributed:
        destroy_process_group()


if __name__ == "__main__":
    main()
