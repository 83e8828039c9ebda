"""Loaders with workers: their work is done in the test's own process, where what they make is known.

Each worker has its turn as torch's have, with its own worker info, and as many batches lie ready on the host,
pinned if they are to be. Other memory of worker processes is not seen.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils.data import DataLoader, _DatasetKind, _utils
from torch.utils.data.dataloader import _BaseDataLoaderIter

_worker: Any = _utils.worker


def install_loaders(births: Callable[[], int]) -> None:
    """Let loaders' workers be run so; ``births``: how many tensors the device has been given so far."""
    loaders: Any = DataLoader
    original = loaders._get_iterator

    def get_iterator(loader: DataLoader[Any]) -> Any:
        return _InTurn(loader, births) if loader.num_workers else original(loader)

    loaders._get_iterator = get_iterator
    _keep_off_shared_memory()


def _keep_off_shared_memory() -> None:
    """``default_collate`` in a worker stacks into a storage that processes share: not for fake tensors."""
    data: Any = torch.utils.data
    original = data.get_worker_info

    def get_worker_info() -> Any:
        asker = sys._getframe(1).f_globals.get("__name__")
        return None if asker == "torch.utils.data._utils.collate" else original()

    data.get_worker_info = get_worker_info


class _InTurn(_BaseDataLoaderIter):
    """A loader's batches, ``prefetch_factor`` a worker ahead of who takes them."""

    def __init__(self, loader: DataLoader[Any], births: Callable[[], int]) -> None:
        super().__init__(loader)
        self._births = births
        self._initialise = loader.worker_init_fn
        self._ahead = (loader.prefetch_factor or 2) * loader.num_workers
        self._begin()

    def _reset(self, loader: DataLoader[Any], first_iter: bool = False) -> None:
        """The next epoch of workers that persist."""
        super()._reset(loader, first_iter)
        self._begin()

    def _begin(self) -> None:
        self._fetchers = {number: self._fetcher(number) for number in range(self._num_workers)}
        self._turns: deque[int] = deque(self._fetchers)
        self._ready: deque[Any] = deque()
        self._fill()

    def _next_data(self) -> Any:
        if not self._ready:
            raise StopIteration
        data = self._ready.popleft()
        self._fill()
        if isinstance(data, _Failed):
            raise data.error
        return data

    def _fill(self) -> None:
        while self._turns and len(self._ready) < self._ahead:
            number = self._turns.popleft()
            try:
                index = next(self._sampler_iter)
            except StopIteration:
                self._turns.clear()
                return
            try:
                self._ready.append(self._fetched(number, index))
            except StopIteration:  # this worker's part of an iterable data set is at its end
                continue
            except Exception as error:  # raised where it would be taken
                self._ready.append(_Failed(error))
            self._turns.append(number)

    def _fetched(self, number: int, index: Any) -> Any:
        with self._as_worker(number):
            data = self._fetchers[number].fetch(index)
        if self._pin_memory:
            data = _utils.pin_memory.pin_memory(data, self._pin_memory_device)
        return data

    def _fetcher(self, number: int) -> Any:
        with self._as_worker(number):
            if self._initialise is not None:
                self._initialise(number)
            return _DatasetKind.create_fetcher(
                self._dataset_kind, self._dataset, self._auto_collation, self._collate_fn, self._drop_last
            )

    @contextmanager
    def _as_worker(self, number: int) -> Iterator[None]:
        """Code inside finds itself in worker ``number``, and no device: CUDA cannot be used in a fork."""
        outer, births = _worker._worker_info, self._births()
        _worker._worker_info = _worker.WorkerInfo(
            id=number, num_workers=self._num_workers, seed=self._base_seed + number, dataset=self._dataset
        )
        try:
            yield
        finally:
            _worker._worker_info = outer
        if self._births() != births:
            raise RuntimeError(
                "Cannot re-initialize CUDA in forked subprocess: a DataLoader's worker put a tensor there. "
                "Make it on the cpu, and move batches to the device where they are taken from the loader"
            )


class _Failed:
    """A batch that could not be made."""

    def __init__(self, error: Exception) -> None:
        self.error = error
