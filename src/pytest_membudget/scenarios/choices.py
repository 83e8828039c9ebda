"""The choices of a job's descriptions, read from their types: each is written once."""

from __future__ import annotations

from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

from ..user_input.kinds import Choice

#: Number types by the one name that files use.
NUMBER_TYPES: Final = ("fp32", "bf16", "fp16", "fp8")
#: Of all libraries; which of them has which is checked where a job is made.
OPTIMIZERS: Final = (
    "adamw",
    "adam",
    "nadam",
    "radam",
    "adamax",
    "adadelta",
    "adagrad",
    "asgd",
    "rmsprop",
    "rprop",
    "sgd",
    "adafactor",
    "lion",
    "muon",
)


def choice(description: type, name: str) -> Choice:
    """What the field ``name`` of a dataclass takes, as a field of a file."""
    return Choice(words_of(description, name))


def words_of(description: type, name: str) -> tuple[Any, ...]:
    """The values of the field ``name`` of a dataclass, whose type is a Literal, or one or None."""
    hint = get_type_hints(description)[name]
    if get_origin(hint) is not Literal:  # or None
        [hint] = [part for part in get_args(hint) if part is not type(None)]
    assert get_origin(hint) is Literal, f"{description.__name__}.{name} is no choice"
    return get_args(hint)
