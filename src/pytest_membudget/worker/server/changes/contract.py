"""What each change is: a function that is called before the test runs, in a process of the run's own."""

from __future__ import annotations

from collections.abc import Callable

import pytest

#: Takes what a change has found to change, as reports name it: ``AdamW``. Without that nothing was tried.
Note = Callable[[str], None]
#: Makes the change for the run of a test. It is never undone: the process ends with the run.
Apply = Callable[[pytest.Item, Note], None]
