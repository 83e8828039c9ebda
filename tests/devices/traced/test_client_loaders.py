"""Loaders with workers, children of the process with the stand-in: they have no CUDA, as on a GPU."""

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info


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
    count, name, message = trace(broken, "breaks").value

    assert (count, name) == (3, "KeyError")
    assert "KeyError: 'three'" in message


def test_workers_have_no_device(trace):
    count, name, message = trace(broken, "on cuda").value

    assert (count, name) == (0, "RuntimeError")
    assert "Cannot re-initialize CUDA in forked subprocess" in message
