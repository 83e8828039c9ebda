"""Changes that are applied to a test's body from outside, in a process that runs nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest

#: Called with what was changed, as reports name it, for example ``AdamW``.
Note = Callable[[str], None]
#: Applies the change to the run of a test. It is not undone: the process ends with the run.
Apply = Callable[[pytest.Item, Note], None]
