"""Checkpoints: as large as on a card, with a hole for what nobody has computed.

Each format's writer and reader is replaced at its public entry; what is known (steps, settings, tokens) is
written as it is. Files are read back with their shapes, and neither cost time nor cause a caveat.
"""

from ..values.following import Following
from .distributed_files import install_distributed
from .old_files import install_old_files
from .safetensors_files import install_safetensors
from .zip_files import install_zip_files


def install_saving(following: Following) -> None:
    """Change how checkpoints are written and read, for the rest of the process.

    Raises ``UnsupportedTorch`` if this torch lacks a part that is changed.
    """
    install_zip_files(following)
    install_old_files(following)
    install_distributed(following)
    install_safetensors(following)
