"""Losses in single operators, with and without the output head before them.

The reference implementations that Liger-Kernel's benchmarks hold their kernels against, re-created: linkedin/
Liger-Kernel, benchmark/scripts/benchmark_*.py with test/utils.py and test/chunked_loss/, each at the release
that the case names. What a function still names when it returns stands as there.
"""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F
from torch import nn

BFLOAT16 = torch.bfloat16
IGNORED = -100


def head(width: int, vocab: int, bias: bool = False) -> nn.Linear:
    """An output head in bfloat16, made on the host."""
    return nn.Linear(width, vocab, bias=bias, dtype=BFLOAT16)


class CrossEntropyHead(nn.Module):
    """Head and cross entropy of ``[rows, width]``, no conversion to fp32."""

    def __init__(self, width: int, vocab: int) -> None:
        super().__init__()
        self.lin = head(width, vocab)
        self.loss = nn.CrossEntropyLoss(ignore_index=IGNORED)

    def forward(self, x: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Mean loss."""
        logits = self.lin(x)
        return cast(torch.Tensor, self.loss(logits, targets))


def divergence(log_q: torch.Tensor, log_p: torch.Tensor) -> torch.Tensor:
    """Jensen-Shannon, of log-probabilities."""
    kl = nn.KLDivLoss(reduction="batchmean", log_target=True)
    mixture = 0.5 * (torch.exp(log_q) + torch.exp(log_p))
    log_mixture = torch.log(mixture)
    loss = 0.5 * (kl(log_mixture, log_q) + kl(log_mixture, log_p))
    return cast(torch.Tensor, loss)


class DivergenceHeads(nn.Module):
    """A student's and a teacher's head, both trained, and their Jensen-Shannon divergence in fp32."""

    def __init__(self, width: int, vocab: int) -> None:
        super().__init__()
        self.student_lin, self.teacher_lin = head(width, vocab), head(width, vocab)
        self.kl = nn.KLDivLoss(reduction="batchmean", log_target=True)

    def forward(self, student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
        """Both ``[rows, width]``."""
        student_logits = self.student_lin(student)
        teacher_logits = self.teacher_lin(teacher)
        student_prob = torch.log_softmax(student_logits / 1.0, dim=-1)
        teacher_prob = torch.log_softmax(teacher_logits / 1.0, dim=-1)
        return self._divergence(student_prob, teacher_prob)

    def _divergence(self, log_q: torch.Tensor, log_p: torch.Tensor) -> torch.Tensor:
        log_p, log_q = log_p.to(torch.float), log_q.to(torch.float)
        mixture = torch.lerp(torch.exp(log_p), torch.exp(log_q), 0.5)
        loss = 0.5 * self.kl(torch.log(mixture), log_p) + 0.5 * self.kl(torch.log(mixture), log_q)
        return cast(torch.Tensor, loss.to(BFLOAT16))


def log_probabilities(logits: torch.Tensor, labels: torch.Tensor, ignored: int) -> torch.Tensor:
    """Mean log-probability of each row's labels: ``[batch, tokens, vocab]``, ``[batch, tokens]``."""
    counted = labels != ignored
    labels = torch.where(labels == ignored, 0, labels)
    of_tokens = torch.gather(logits.log_softmax(-1), dim=2, index=labels.unsqueeze(2)).squeeze(2)
    return (of_tokens * counted).sum(-1) / counted.sum(-1)


def flat_cross_entropy(logits: torch.Tensor, labels: torch.Tensor, ignored: int) -> torch.Tensor:
    """Cross entropy of all tokens."""
    return F.cross_entropy(logits.view(-1, logits.shape[-1]), labels.view(-1), ignore_index=ignored)


class OddsRatioHead(nn.Module):
    """ORPO: the first half of a batch is chosen, the second rejected."""

    def __init__(self, width: int, vocab: int) -> None:
        super().__init__()
        self.lin = head(width, vocab)

    def forward(self, x: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """``x`` is ``[batch, tokens, width]``."""
        parts = self._concatenated(x, targets)
        chosen, rejected, _chosen_logits, _rejected_logits, nll = parts
        odds = (chosen - rejected) - (torch.log1p(-torch.exp(chosen)) - torch.log1p(-torch.exp(rejected)))
        losses = 0.1 * F.logsigmoid(odds)
        return nll - losses.mean()

    def _concatenated(self, x: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, ...]:
        half = x.shape[0] // 2
        outputs = x @ self.lin.weight.t()
        logits = outputs.float()
        nll = flat_cross_entropy(logits[:half], targets[:half], IGNORED)
        of_rows = log_probabilities(logits, targets, IGNORED)
        return of_rows[:half], of_rows[half:], logits[:half], logits[half:], nll


class PreferenceHeads(nn.Module):
    """KTO: a trained head and a frozen reference's, with biases; rows are chosen by a mask."""

    ignored = 42

    def __init__(self, width: int, vocab: int) -> None:
        super().__init__()
        self.lin, self.ref_lin = head(width, vocab, bias=True), head(width, vocab, bias=True)

    def forward(
        self,
        x: torch.Tensor,
        reference: torch.Tensor,
        targets: torch.Tensor,
        preferred: torch.Tensor,
        kl: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        """The loss, and sums for a log; ``x`` is ``[batch, tokens, width]``, ``preferred`` ``[batch]``."""
        parts = self._concatenated(x, targets, preferred)
        chosen, rejected, chosen_logits, rejected_logits = parts
        ref_chosen, ref_rejected = self._reference(reference, targets, preferred)
        chosen_ratios = chosen - ref_chosen
        chosen_losses = 1 - F.sigmoid(0.1 * (chosen_ratios - kl))
        rejected_ratios = rejected - ref_rejected
        rejected_losses = 1 - F.sigmoid(0.1 * (kl - rejected_ratios))
        losses = torch.cat((chosen_losses, rejected_losses), 0)
        rewards = (0.1 * chosen_ratios).sum(), (0.1 * rejected_ratios).sum()
        loss = torch.tensor(0.0, device=x.device) * 1.0 + losses.mean()
        logged = chosen, rejected, chosen_logits, rejected_logits
        return loss, *(tensor.detach().sum() for tensor in logged), *rewards

    def _concatenated(
        self, x: torch.Tensor, targets: torch.Tensor, preferred: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        outputs = x @ self.lin.weight.t()
        outputs = outputs + self.lin.bias
        logits = outputs.float()
        of_rows = log_probabilities(logits, targets, self.ignored)
        return of_rows[preferred], of_rows[~preferred], logits[preferred], logits[~preferred]

    @torch.no_grad()
    def _reference(
        self, x: torch.Tensor, targets: torch.Tensor, preferred: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        logits = x @ self.ref_lin.weight.t()
        logits = logits + self.ref_lin.bias
        of_rows = log_probabilities(logits, targets, self.ignored)
        return of_rows[preferred], of_rows[~preferred]


class CosineHeads(nn.Module):
    """A student of half the width learns from a frozen teacher: cross entropy and cosine, half of each."""

    def __init__(self, width: int, vocab: int) -> None:
        super().__init__()
        self.student_lin, self.teacher_lin = head(width // 2, vocab), head(width, vocab)

    def forward(self, student: torch.Tensor, teacher: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """``student`` is ``[rows, width / 2]``, ``teacher`` ``[rows, width]``."""
        parts = self._concatenated(student, teacher, targets)
        student_logits, teacher_logits, hard = parts
        student_logits /= 1.0  # the temperature
        teacher_logits /= 1.0
        soft = self._cosine(student_logits, teacher_logits)
        return 0.5 * hard + 0.5 * soft

    def _concatenated(
        self, student: torch.Tensor, teacher: torch.Tensor, targets: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        student_outputs = student @ self.student_lin.weight.t()
        with torch.no_grad():
            teacher_outputs = teacher @ self.teacher_lin.weight.t()
        student_logits = student_outputs.float()
        teacher_logits = teacher_outputs.float()
        if torch.all(targets == IGNORED):
            raise ValueError("every target is ignored")
        return student_logits, teacher_logits, flat_cross_entropy(student_logits, targets, IGNORED)

    def _cosine(self, student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
        student_norm = F.normalize(student, p=2, dim=-1)
        teacher_norm = F.normalize(teacher, p=2, dim=-1)
        similarity = F.cosine_similarity(student_norm, teacher_norm, dim=-1)
        loss = 1.0 * (1 - similarity)
        return loss.mean()


def variation(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """Total variation distance, a row's on average."""
    distances = torch.abs(p - q) / 2.0
    return torch.sum(distances) / p.size(0)
