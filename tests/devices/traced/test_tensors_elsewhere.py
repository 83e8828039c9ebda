"""Tensors that are copied, moved, and made by a loader's workers: what they are for, and what they hold."""

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
