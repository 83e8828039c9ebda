"""Files of ``torch.distributed.checkpoint``: one of ``torch.save``'s after another."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from ...after_import import after_import
from ...torch_parts import check_parts
from ..values.following import Following

_DISTRIBUTED: Final = "torch.distributed.checkpoint"
#: What copies tensors to the host for a file: (module, attribute path, what it is for).
#: tests/devices/stand_in/test_saving.py has one test a row.
COPIES: Final = (
    (f"{_DISTRIBUTED}.filesystem", "_write_files_from_queue", "copies for files"),
    (f"{_DISTRIBUTED}._state_dict_stager", "StateDictStager.stage", "copies for files"),
    (f"{_DISTRIBUTED}.staging", "BlockingAsyncStager.stage", "copies for files"),
)
#: What gives the stream that a tensor is written to.
STREAMS: Final = (
    f"{_DISTRIBUTED}.filesystem",
    "_StorageWriterTransforms.transform_save_stream",
    "holes in files",
)


def install_distributed(following: Following) -> None:
    """Change how it writes them, for the rest of the process, as soon as it is imported.

    It copies tensors in its threads, and has a stream around the file that cannot be sought in. Raises
    ``UnsupportedTorch`` then if this torch lacks a part.
    """
    for part in COPIES:
        after_import(part[0], partial(_replace, part, following.copies.for_files))
    after_import(STREAMS[0], partial(_replace, STREAMS, _with_holes))


def _replace(part: tuple[str, str, str], wrap: Callable[[Any], Any], module: Any) -> None:
    check_parts((part,))
    *owners, name = part[1].split(".")
    owner = getattr(module, owners[0]) if owners else module
    setattr(owner, name, wrap(getattr(owner, name)))


def _with_holes(transform: Callable[..., Any]) -> Callable[..., Any]:
    def transform_save_stream(self: Any, write_item: Any, raw_stream: Any) -> Any:
        stream, names = transform(self, write_item, raw_stream)
        if not names:  # nothing between ``stream`` and the file
            stream.seek, stream.seekable = raw_stream.seek, raw_stream.seekable
        return stream, names

    return transform_save_stream
