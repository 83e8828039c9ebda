"""The store of a rank that runs alone: what another rank would have put there is taken to be zeros."""

import threading
from collections.abc import Sequence
from typing import Any

from torch._C._distributed_c10d import Store

#: NCCL_UNIQUE_ID_BYTES (nccl.h): what ranks wait for when a communicator is made.
_ID = bytes(128)


class LonelyStore(Store):
    """Nobody waits here for anybody. What was set is found; a key that nobody has set holds an empty id."""

    def __init__(self) -> None:
        super().__init__()
        self._held: dict[str, bytes] = {}
        self._turn = threading.RLock()

    def set(self, key: str, value: str | bytes) -> None:
        """As ``torch.distributed.Store``."""
        with self._turn:
            self._held[key] = value.encode() if isinstance(value, str) else bytes(value)

    def get(self, key: str) -> bytes:
        """What was set, at once."""
        with self._turn:
            return self._held.get(key, _ID)

    def append(self, key: str, value: str | bytes) -> None:
        """As ``torch.distributed.Store``."""
        with self._turn:
            more = value.encode() if isinstance(value, str) else bytes(value)
            self._held[key] = self._held.get(key, b"") + more

    def compare_set(self, key: str, expected: str | bytes, desired: str | bytes) -> bytes:
        """As ``torch.distributed.Store``."""
        with self._turn:
            wanted = expected.encode() if isinstance(expected, str) else bytes(expected)
            if self._held.get(key, b"") == wanted:
                self.set(key, desired)
            return self._held.get(key, wanted)

    def add(self, key: str, amount: int) -> int:
        """As ``torch.distributed.Store``."""
        with self._turn:
            total = int(self._held.get(key, b"0")) + amount
            self._held[key] = str(total).encode()
            return total

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all ``keys`` are there: asked for what another rank says when it fails."""
        with self._turn:
            return all(key in self._held for key in keys)

    def delete_key(self, key: str) -> bool:
        """As ``torch.distributed.Store``."""
        with self._turn:
            return self._held.pop(key, None) is not None

    def num_keys(self) -> int:
        """As ``torch.distributed.Store``."""
        return len(self._held)

    def wait(self, *_: Any) -> None:
        """Nobody else would come."""
