"""Tensors that are copied, moved, pinned, shared, and made by a loader's workers."""

import copy

import numpy
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

MIB = 2**20


def linear():
    return nn.Linear(512, 512, bias=False, device="cuda")  # 1 MiB


def copied():
    model = nn.Sequential(linear(), nn.BatchNorm1d(512, device="cuda"))
    before = torch.cuda.memory_allocated()
    twin = copy.deepcopy(model)
    grown = torch.cuda.memory_allocated() - before
    shared = torch.arange(6, device="cuda")
    whole, part = copy.deepcopy([shared, shared[2:4]])
    return [
        grown == before, isinstance(twin[0].weight, nn.Parameter), twin[0].weight.requires_grad,
        str(twin[1].running_mean.device), part.tolist(), whole.data_ptr() + 16 == part.data_ptr(),
        whole.data_ptr() == shared.data_ptr(),
    ]  # fmt: skip


def test_a_deep_copy_is_as_large_and_shares_within_itself(trace):
    assert trace(copied).value == [True, True, True, "cuda:0", [2, 3], True, False]


def copied_with_gradient():
    x = torch.ones(3, device="cuda", requires_grad=True)
    (x * 2).sum().backward()
    x.tag = "mine"
    twin = copy.deepcopy(x)
    try:
        copy.deepcopy(x * 2)
    except RuntimeError as error:
        message = str(error)
    return [list(twin.grad.shape), twin.requires_grad, twin.tag, twin.grad is x.grad, message[:40]]


def test_a_deep_copy_has_its_gradient_and_attributes(trace):
    assert trace(copied_with_gradient).value == [
        [3],
        True,
        "mine",
        False,
        "Only Tensors created explicitly by the u",
    ]


def copied_optimizer():
    model = linear()
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(1, 512, device="cuda")).sum().backward()
    optimizer.step()
    state = copy.deepcopy(optimizer.state_dict())
    optimizer.load_state_dict(state)
    optimizer.step()
    return optimizer.state[model.weight]["step"].item()


def test_an_optimizers_state_is_copied_and_loaded(trace):
    traced = trace(copied_optimizer)

    assert traced.value == 2.0
    assert not traced.report.assumptions


def averaged():
    model = linear()
    average = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.99)
    )
    for _ in range(3):
        average.update_parameters(model)
    return average.n_averaged.item()


def test_a_moving_average_counts(trace):
    assert trace(averaged).value == 3


def state_dicts():
    model, other = linear(), nn.Linear(512, 512, bias=False)
    keys = str(other.load_state_dict(model.state_dict()))
    empty = nn.Linear(512, 512, bias=False, device="meta")
    empty.load_state_dict(model.state_dict(), assign=True)
    filled = nn.Linear(4, 4, device="meta").to_empty(device="cuda")
    filled.reset_parameters()
    return [keys, str(other.weight.device), str(empty.weight.device), str(filled.weight.device)]


def test_state_dicts_are_loaded_across_devices(trace):
    assert trace(state_dicts).value == ["<All keys matched successfully>", "cpu", "cuda:0", "cuda:0"]


def converted():
    model = nn.Sequential(linear(), linear())
    model[1].weight = model[0].weight
    seen = [torch.cuda.memory_allocated()]
    for change in (model.half, model.float, model.cpu, model.cuda):
        change()
        seen.append(torch.cuda.memory_allocated())
    model.to("cuda", torch.bfloat16)
    return [
        *seen,
        torch.cuda.memory_allocated(),
        model[0].weight is model[1].weight,
        len(list(model.parameters())),
    ]


def test_conversions_keep_weights_tied_and_give_memory_back(trace):
    assert trace(converted).value == [MIB, MIB // 2, MIB, 0, MIB, MIB // 2, True, 1]


def moved_alone():
    frozen = nn.Linear(512, 512, bias=False).requires_grad_(False)
    model = nn.Sequential(nn.Linear(512, 512, bias=False), frozen)
    model.cuda()


def test_a_model_that_is_moved_and_not_run_is_made_of_parameters(trace):
    traced = trace(moved_alone)

    assert traced.parameters == traced.frozen_parameters == MIB


def pinned():
    x = torch.randn(4)
    p = x.pin_memory()
    empty = torch.empty(4, pin_memory=True)
    moved = p.cuda(non_blocking=True)
    try:
        moved.pin_memory()
    except RuntimeError as error:
        message = str(error)
    return [x.is_pinned(), p.is_pinned(), p[1:].is_pinned(), p.pin_memory() is p, empty.is_pinned(), message]


def test_host_memory_is_pinned(trace):
    assert trace(pinned).value == [
        False, True, True, True, True,
        "cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned",
    ]  # fmt: skip


def shared():
    model = nn.Linear(2, 2)
    before = model.weight.is_shared()
    model.share_memory()
    return [before, model.weight.is_shared(), linear().share_memory().weight.is_shared()]


def test_memory_is_shared_by_saying_so(trace):
    assert trace(shared).value == [False, True, True]


class Samples(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return {
            "ids": torch.arange(index, index + 3),
            "pixels": numpy.ones(2, dtype=numpy.float32),
            "label": index,
        }


def loaded(workers, pin_memory):
    loader = DataLoader(
        Samples(), batch_size=2, num_workers=workers, pin_memory=pin_memory, persistent_workers=workers > 0
    )
    seen = []
    for batch in loader:
        on_device = {name: value.to("cuda", non_blocking=True) for name, value in batch.items()}
        seen.append([on_device["ids"].tolist(), list(on_device["pixels"].shape), on_device["label"].tolist()])
    return seen, batch["ids"].is_pinned(), loader.num_workers


@pytest.mark.parametrize("pin_memory", [True, False])
@pytest.mark.parametrize("workers", [0, 2])
def test_loaders_hand_over_what_their_datasets_hold(trace, workers, pin_memory):
    traced = trace(loaded, workers, pin_memory)

    assert traced.value == [
        [[[[0, 1, 2], [1, 2, 3]], [2, 2], [0, 1]], [[[2, 3, 4], [3, 4, 5]], [2, 2], [2, 3]]],
        pin_memory, workers,
    ]  # fmt: skip
    assert not traced.report.assumptions


def handed_over():
    return torch.from_dlpack(torch.ones(2))


def refused():
    try:
        handed_over()
    except Exception as error:
        return [type(error).__name__, str(error)]


def test_tensors_cannot_be_handed_to_other_libraries_as_they_are(trace):
    name, message = trace(refused).value

    assert name == "NotAvailable"
    assert "Tensor.numpy()" in message
