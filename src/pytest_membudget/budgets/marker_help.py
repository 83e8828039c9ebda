"""The marker's help line, for ``pytest --markers``; the reference has the same text."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Final

from .budget import Budget

_ARGUMENTS: Final = ", ".join(
    f"{field.name}={None if field.default is MISSING else field.default!r}" for field in fields(Budget)
)
SIGNATURE: Final = f"mem_budget(*, {_ARGUMENTS})"
HELP: Final = (
    f"{SIGNATURE}: the GPU memory this test may take, in GiB a GPU; "
    "`pytest --membudget` estimates it without a GPU and fails the test if it takes more."
)
