"""Which build of torch lies in a folder, by its files: nothing here imports torch."""

import importlib.machinery
import importlib.util
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class TorchBuild:
    """A torch that can be imported from ``folder``."""

    folder: Path
    """The entry of the import path that holds ``torch``."""
    version: str
    """``torch.__version__``: "2.13.0+cpu"."""
    cuda: str | None = None
    """``torch.version.cuda``: "13.0"; None for a build without CUDA."""
    hip: str | None = None
    """``torch.version.hip``; None for a build without ROCm."""
    extensions: tuple[Path, ...] = ()
    """Folders with packages that were built for this build, such as torchvision, and Triton's."""

    @property
    def public_version(self) -> str:
        """The version without what names the build: "2.13.0"."""
        return self.version.partition("+")[0]

    @property
    def import_path(self) -> tuple[Path, ...]:
        """What to put first in ``sys.path`` to import this torch and what was built for it."""
        return (self.folder, *self.extensions)


def build_in(folder: Path) -> TorchBuild | None:
    """The torch in ``folder``; None if there is none, or one that was never built.

    ``torch/version.py`` is read as ``tools/generate_torch_version.py`` of PyTorch 2.11 to 2.15 writes it.
    """
    try:
        text = (folder / "torch" / "version.py").read_text(encoding="utf-8")
    except OSError:
        return None
    version = _value("__version__", text)
    if version is None:
        return None
    return TorchBuild(folder, version, cuda=_value("cuda", text), hip=_value("hip", text))


def _value(name: str, text: str) -> str | None:
    found = re.search(rf"^{name}(?:\s*:[^=]*)?\s*=\s*['\"]([^'\"]+)", text, re.MULTILINE)
    return found.group(1) if found else None


@cache
def environments_torch() -> TorchBuild | None:
    """The torch that this process would import; None if there is none."""
    spec = importlib.util.find_spec("torch")
    return build_in(Path(spec.origin).parents[1]) if spec is not None and spec.origin else None


def runs_here(build: TorchBuild) -> bool:
    """Whether this Python, on this machine, can import the compiled part of ``build``."""
    names = (f"_C{suffix}" for suffix in importlib.machinery.EXTENSION_SUFFIXES)
    return any((build.folder / "torch" / name).is_file() for name in names)
