"""``UntypedStorage.resize_``, by which memory is given back and taken again under the same tensors.

FSDP frees and refills parameters by it. A fake tensor's storage is changed without any operator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def install_storage_sizes(resized: Callable[[torch.UntypedStorage], None]) -> None:
    """Call ``resized`` with each storage that gets another size."""
    storages: Any = torch.UntypedStorage
    original = storages.resize_

    def resize_(storage: torch.UntypedStorage, size: int) -> Any:
        before = storage.nbytes()
        result = original(storage, size)
        if storage.nbytes() != before:
            resized(storage)
        return result

    storages.resize_ = resize_
