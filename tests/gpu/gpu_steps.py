"""Steps of the GPU suite, which measures one after another: training, distillation, greedy decoding."""

import torch
import torch.nn.functional as F

from pytest_membudget.steps import forward_kl


def train_step(model, optimizer, batch, accumulate=1, loss=lambda output: output.loss):
    """One update by equal parts of ``batch``; without an ``optimizer`` the hooks of the parameters update."""
    for number in range(accumulate):
        part = {
            name: one.chunk(accumulate)[number] if isinstance(one, torch.Tensor) else one
            for name, one in batch.items()
        }
        (loss(model(**part)) / accumulate).backward()
    if optimizer is not None:
        optimizer.step()
        optimizer.zero_grad()


def distillation_step(student, teacher, optimizer, batch, chunks):
    """Half the divergence, half the cross entropy with the next token, as torchtune has it."""
    inputs = {name: one for name, one in batch.items() if name != "labels"}
    labels = F.pad(batch["labels"][:, 1:], (0, 1), value=-100)
    with torch.no_grad():
        targets = teacher(**inputs).logits
    logits = student(**inputs).logits
    divergence = forward_kl(logits, targets, labels, chunks=chunks)
    cross_entropy = torch.zeros((), device=logits.device)
    for part, wanted in zip(logits.chunk(chunks, 1), labels.chunk(chunks, 1), strict=True):
        rows = part.flatten(0, -2).float()
        cross_entropy = cross_entropy + F.cross_entropy(rows, wanted.flatten(), reduction="sum")
    loss = 0.5 * divergence + 0.5 * (cross_entropy / (labels != -100).sum())
    del logits, targets
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


@torch.inference_mode()
def decode(model, tokens, new_tokens):
    """The prompt, then one token at a time with a cache of keys and values."""
    cache = None
    for _ in range(new_tokens):
        output = model(input_ids=tokens, past_key_values=cache, use_cache=True, logits_to_keep=1)
        tokens, cache = output.logits[:, -1:].argmax(-1), output.past_key_values
