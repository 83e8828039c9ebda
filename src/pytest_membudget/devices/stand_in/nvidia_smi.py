"""The program ``programs/nvidia-smi``, for processes on the stand-in: no machine without a card has it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

NAME: Final = "nvidia-smi"
#: A folder for PATH.
FOLDER: Final = Path(__file__).parent / "programs"
_LISTS: Final = ("-L", "--list-gpus")
_QUERY: Final = "--query-gpu="
#: What the stand-in's cards are known to have; memory in use, clocks and the driver's version are not.
FIELDS: Final = frozenset({"index", "count", "name", "gpu_name", "compute_cap"})


def is_answered(arguments: Sequence[str]) -> bool:
    """Whether it answers ``arguments`` as that of a machine with such cards does.

    Its table, without arguments, does not: there a card has its memory, in all and in use.
    """
    queries = [word.removeprefix(_QUERY) for word in arguments if word.startswith(_QUERY)]
    others = [word for word in arguments if word not in _LISTS and not word.startswith((_QUERY, "--format="))]
    return bool(arguments) and not others and all(FIELDS.issuperset(query.split(",")) for query in queries)
