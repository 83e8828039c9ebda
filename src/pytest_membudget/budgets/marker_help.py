"""The marker's help line, for ``pytest --markers``; the reference has the same text."""

from __future__ import annotations

from typing import Final

SIGNATURE: Final = (
    "mem_budget(*, gib=None, gpus=1, gpu=None, host_gib=None, metric='allocated', components=None, "
    "max_growth=None, ranks='all', scenario=None, reason=None)"
)
HELP: Final = (
    f"{SIGNATURE}: the GPU memory this test may take, in GiB a GPU; "
    "`pytest --membudget` estimates it without a GPU and fails the test if it takes more."
)
