"""Loaders with workers: batches in the order in which torch's own workers give them, and what lies ready."""

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

MIB = 2**20


class Numbered(Dataset):
    def __len__(self):
        return 10

    def __getitem__(self, index):
        return index, get_worker_info().id


class Sharded(IterableDataset):
    """As torch's documentation has it: each worker has its own part."""

    def __iter__(self):
        worker = get_worker_info()
        return iter(range(worker.id, 10, worker.num_workers))


def epochs(dataset, **options):
    loader = DataLoader(
        {"numbered": Numbered(), "sharded": Sharded()}[dataset], batch_size=2, num_workers=3, **options
    )
    return [batch if dataset == "numbered" else batch.tolist() for _ in range(2) for batch in loader]


def numbered():
    return [[indices.tolist(), workers.tolist()] for indices, workers in epochs("numbered")]


def test_batches_are_made_by_workers_in_turn(trace):
    once = [[[2 * batch, 2 * batch + 1], 2 * [batch % 3]] for batch in range(5)]

    assert trace(numbered).value == 2 * once


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("drop_last", [True, False])
def test_each_worker_has_its_part_of_an_iterable(trace, persistent, drop_last):
    """Of 0 3 6 9, 1 4 7 and 2 5 8, two each in turn, in every epoch."""
    full, rest = [[0, 3], [1, 4], [2, 5], [6, 9]], [[7], [8]]

    traced = trace(sharded, persistent, drop_last)

    assert traced.value == 2 * (full if drop_last else full + rest)


def sharded(persistent, drop_last):
    return epochs("sharded", persistent_workers=persistent, drop_last=drop_last)


class Large(Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, index):
        return torch.zeros(MIB // 4)


def to_the_device(pin_memory):
    for batch in DataLoader(Large(), num_workers=2, prefetch_factor=2, pin_memory=pin_memory):
        on_device = batch.to("cuda", non_blocking=True)
    return batch.is_pinned(), on_device.shape[0]


@pytest.mark.parametrize("pin_memory", [True, False])
def test_two_batches_a_worker_lie_ready(trace, pin_memory):
    """On the host the batch before, the one just taken, three that are ready, and the fourth in the making.

    1 MiB each, the last one twice: as a sample and stacked, or stacked and pinned. On the device two.
    """
    report = trace(to_the_device, pin_memory).report

    assert report.host.peak.allocated_bytes == (5 + 2) * MIB
    assert report.peak.allocated_bytes == 2 * MIB


class Breaks(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        if index == 3:
            raise KeyError("three")
        return torch.ones(1)


class OnCuda(Breaks):
    def __getitem__(self, index):
        return torch.ones(1, device="cuda")


def broken(dataset):
    count = 0
    try:
        for _ in DataLoader({"breaks": Breaks(), "on cuda": OnCuda()}[dataset], num_workers=2):
            count += 1
    except Exception as error:
        return count, type(error).__name__, str(error)


def test_an_error_comes_when_its_batch_is_taken(trace):
    assert trace(broken, "breaks").value == [3, "KeyError", "'three'"]


def test_workers_have_no_device(trace):
    count, name, message = trace(broken, "on cuda").value

    assert (count, name) == (0, "RuntimeError")
    assert "Cannot re-initialize CUDA in forked subprocess" in message
    assert "move batches to the device" in message


def initialised():
    seen = []
    loader = DataLoader(
        Numbered(), num_workers=2, worker_init_fn=lambda number: seen.append([number, get_worker_info().id])
    )
    next(iter(loader))
    return seen, get_worker_info() is None


def test_workers_are_initialised_each_as_itself(trace):
    assert trace(initialised).value == [[[0, 0], [1, 1]], True]
