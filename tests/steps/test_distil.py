"""distillation_step equals the plain loop that its docstring names, and keeps no more alive."""

from copy import deepcopy

import pytest
import torch
import torch.nn.functional as F
from plain_torch import adam, assert_equal, by_hand, parameters_of
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef

from pytest_membudget.steps import distillation_step


@pytest.mark.parametrize("chunks", [1, 4])
def test_a_distillation_step_equals_the_plain_loop(pair, tokens, chunks):
    student, teacher = pair
    plain = deepcopy(student)
    labels = tokens.clone()
    labels[:, :3] = -100  # a prompt that is not to be learnt
    batch = {"input_ids": tokens, "labels": labels}

    loss = distillation_step(
        student, teacher, adam(student), batch, temperature=2.0, kd_ratio=0.3, chunks=chunks
    )

    logits, targets = plain(tokens).logits[:, :-1], labels[:, 1:]
    divergence = by_hand(logits, teacher(tokens).logits[:, :-1], targets, temperature=2.0)
    cross_entropy = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
    expected = 0.3 * 2.0**2 * divergence + 0.7 * cross_entropy
    expected.backward()
    adam(plain).step()
    torch.testing.assert_close(loss, expected.detach())
    torch.testing.assert_close(parameters_of(student), parameters_of(plain))


def test_the_students_cross_entropy_is_hugging_faces_loss(llama):
    tokens = torch.randint(0, 64, (2, 9))
    batch = {"input_ids": tokens, "labels": tokens, "use_cache": False}
    teacher = deepcopy(llama).eval()
    expected = llama(**batch).loss.detach()

    loss = distillation_step(llama, teacher, adam(llama), batch, kd_ratio=0.0, chunks=2)

    torch.testing.assert_close(loss, expected)


def test_a_student_like_its_teacher_has_nothing_to_learn_from_it(pair, tokens):
    _, teacher = pair
    student = deepcopy(teacher).requires_grad_()
    before = parameters_of(student)
    batch = {"input_ids": tokens, "labels": tokens}

    loss = distillation_step(
        student, teacher, torch.optim.SGD(student.parameters(), lr=1.0), batch, kd_ratio=1.0
    )

    assert loss.item() == pytest.approx(0.0, abs=1e-6)
    torch.testing.assert_close(parameters_of(student), before)


def test_without_labels_the_loss_is_the_divergence_alone(pair, tokens):
    student, teacher = pair
    expected = by_hand(student(tokens).logits, teacher(tokens).logits, tokens).detach()

    torch.testing.assert_close(distillation_step(student, teacher, adam(student), tokens), expected)


def test_the_teacher_is_left_as_it_was(pair, tokens):
    student, teacher = pair
    teacher.requires_grad_(True)
    before = parameters_of(teacher)

    distillation_step(student, teacher, adam(student), {"input_ids": tokens, "labels": tokens})

    assert_equal(parameters_of(teacher), before)
    assert all(p.grad is None and p.requires_grad for p in teacher.parameters())
    assert not teacher.training


def test_the_teacher_saves_nothing_for_backward(pair, tokens):
    student, teacher = pair
    teacher.requires_grad_(True)

    distillation_step(student, teacher, adam(student), tokens)

    assert not teacher.logits.requires_grad
    assert student.logits.requires_grad


def test_a_distillation_step_leaves_a_detached_loss_and_no_gradients(pair, tokens):
    student, teacher = pair

    loss = distillation_step(student, teacher, adam(student), tokens)

    assert not loss.requires_grad
    assert all(parameter.grad is None for parameter in student.parameters())


def test_a_batch_without_a_token_to_learn_moves_nothing(pair, tokens):
    student, teacher = pair
    before = parameters_of(student)
    batch = {"input_ids": tokens, "labels": torch.full_like(tokens, -100)}

    loss = distillation_step(student, teacher, torch.optim.SGD(student.parameters(), lr=1.0), batch)

    assert loss.item() == 0.0
    assert_equal(parameters_of(student), before)


def test_the_student_keeps_its_mode(pair, tokens):
    student, teacher = pair
    student.train()

    distillation_step(student, teacher, adam(student), tokens)

    assert student.training


def test_no_logits_are_alive_in_backward(pair, tokens):
    student, teacher = pair
    storages, alive = [], []
    for model in pair:
        model.register_forward_hook(lambda module, _, output: storages.append(weak(module, output)))
    student.head.weight.register_hook(lambda _: alive.append([not s.expired() for s in storages]))

    distillation_step(student, teacher, adam(student), {"input_ids": tokens, "labels": tokens}, chunks=2)

    assert alive == [[False, False]]


def weak(module, output):
    del module.logits
    return StorageWeakRef(output.logits.untyped_storage())


def test_a_teacher_in_training_mode_is_refused(pair, tokens):
    student, teacher = pair

    with pytest.raises(ValueError, match=r"teacher is in training mode.*call teacher\.eval\(\)"):
        distillation_step(student, teacher.train(), adam(student), tokens)


def test_a_ratio_outside_0_to_1_is_refused(pair, tokens):
    student, teacher = pair

    with pytest.raises(ValueError, match=r"kd_ratio=1\.5: give 0 .* to 1"):
        distillation_step(student, teacher, adam(student), tokens, kd_ratio=1.5)


def test_a_student_without_logits_is_refused(pair):
    class Silent(nn.Module):
        def forward(self, input_ids):
            return {"hidden": input_ids}

    with pytest.raises(TypeError, match="student returned dict without logits"):
        distillation_step(Silent(), pair[1], None, torch.zeros(1, 4, dtype=torch.long))
