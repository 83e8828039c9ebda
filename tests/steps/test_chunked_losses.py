"""forward_kl equals PyTorch's divergence over the positions that count, however it is sliced."""

import math

import pytest
import torch
from plain_torch import assert_equal, by_hand
from tiny_models import VOCABULARY

from pytest_membudget.steps import forward_kl


@pytest.fixture
def logits():
    labels = torch.randint(0, VOCABULARY, (2, 9))
    labels[0, :4] = -100
    return torch.randn(2, 9, VOCABULARY, requires_grad=True), torch.randn(2, 9, VOCABULARY), labels


def test_the_divergence_of_a_coin_from_a_loaded_one():
    fair, loaded = torch.tensor([[0.5, 0.5]]).log(), torch.tensor([[0.75, 0.25]]).log()

    # KL(loaded || fair) = 3/4 ln (3/4 / 1/2) + 1/4 ln (1/4 / 1/2)
    expected = 0.75 * math.log(1.5) + 0.25 * math.log(0.5)
    assert forward_kl(fair, loaded).item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 4.0])
def test_the_divergence_equals_pytorchs(logits, temperature):
    torch.testing.assert_close(forward_kl(*logits, temperature), by_hand(*logits, temperature))


@pytest.mark.parametrize("chunks", [2, 3, 8, 100])
def test_the_chunked_divergence_equals_the_whole(logits, chunks):
    student = logits[0]
    whole = forward_kl(*logits, temperature=2.0)
    (whole_gradient,) = torch.autograd.grad(whole, student)

    chunked = forward_kl(*logits, temperature=2.0, chunks=chunks)

    torch.testing.assert_close(chunked, whole)
    torch.testing.assert_close(torch.autograd.grad(chunked, student), (whole_gradient,))


def test_masked_positions_have_no_gradient(logits):
    student, _, labels = logits

    forward_kl(*logits).backward()

    moved = student.grad.abs().sum(-1) > 0
    assert torch.equal(moved, labels != -100)


def test_another_ignore_index_masks_other_positions(logits):
    student, teacher, labels = logits

    changed = labels.masked_fill(labels == -100, -1)

    assert_equal(forward_kl(student, teacher, changed, ignore_index=-1), forward_kl(*logits))
    assert not torch.equal(forward_kl(student, teacher, changed), forward_kl(*logits))


def test_without_labels_every_position_counts(logits):
    student, teacher, labels = logits

    torch.testing.assert_close(forward_kl(student, teacher), by_hand(student, teacher, labels.clamp(min=0)))


def test_the_divergence_is_zero_where_everything_is_masked(logits):
    student, teacher, labels = logits

    divergence = forward_kl(student, teacher, torch.full_like(labels, -100))

    assert divergence.item() == 0.0


def test_nothing_flows_back_to_the_teacher(logits):
    student, teacher, labels = logits
    teacher.requires_grad_()

    forward_kl(student, teacher, labels).backward()

    assert teacher.grad is None
    assert student.grad is not None


def test_half_precision_logits_are_compared_in_fp32(logits):
    student, teacher, labels = logits
    half = student.detach().bfloat16(), teacher.bfloat16()

    divergence = forward_kl(*half, labels)

    assert_equal(divergence, forward_kl(half[0].float(), half[1].float(), labels))


def test_logits_of_two_vocabularies_are_refused():
    with pytest.raises(ValueError, match=r"\(1, 4, 7\), the teacher's \(1, 4, 8\).*one vocabulary"):
        forward_kl(torch.zeros(1, 4, 7), torch.zeros(1, 4, 8))


def test_no_chunk_is_refused(logits):
    with pytest.raises(ValueError, match="chunks=0: give the number of slices"):
        forward_kl(*logits, chunks=0)
