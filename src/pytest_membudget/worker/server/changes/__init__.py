"""Changes that are applied to a test's body from outside, in a process that runs nothing else.

Each replaces what the body is going to call (an optimizer's step, a loss, a block's forward), and notes what
it has found to replace: where it found nothing, it was not applicable. ``table`` has them by name; what a
user would write for each is in ``results.advice``.
"""

from collections.abc import Callable

import pytest

#: Called with what was changed, as reports name it, for example ``AdamW``.
Note = Callable[[str], None]
#: Applies the change to the run of a test. It is not undone: the process ends with the run.
Apply = Callable[[pytest.Item, Note], None]
