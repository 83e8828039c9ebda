"""What the stand-in refused and a GPU would not have: remembered, in case the test catches the error.

From there on the test is another run than the one on a GPU, and what it takes is not what it takes there.
"""

from typing import Final

from ....errors import NotAvailable
from ....tracking.running_code.source import users_source

#: Texts, since an error would keep its tensors alive. A process runs one test.
_refused: Final[list[str]] = []


def refusal(text: str) -> NotAvailable:
    """The error to raise where the device has no counterpart for what the test asks for; it is noted."""
    note_refusal(text)
    return NotAvailable(text)


def note_refusal(text: str) -> None:
    """Remember that an error with ``text`` is raised, and for which line of the user's."""
    file, line = users_source().find()
    _refused.append(text if file is None else f"{file}:{line}: {text}")


def refused() -> list[str]:
    """What was refused so far in this process, each with its place."""
    return list(_refused)
