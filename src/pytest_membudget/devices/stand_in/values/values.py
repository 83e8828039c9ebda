"""Values on the stand-in's cards, as a whole: installed once in a worker process."""

import sys
from collections.abc import Callable
from typing import Any

import torch

from ....caveats import Caveat
from ....results.varied import BOUNDS, CARD_DRAWS, CHOICES, UNKNOWN_DATA
from ....tracking.running_code.source import SourceFinder
from ...real.observer import RunObserver
from .following import Following
from .kernels import Kernels
from .one_hot import follow_one_hot
from .reads import install_elapsed_time, install_gradcheck, install_isclose
from .refusals import refused
from .variants import VARIANT


class Values:
    """Computes small values for real, and assumes others where code asks for them."""

    def __init__(self, source: SourceFinder, observer: RunObserver) -> None:
        """``observer``: of the run: it sees the operators."""
        self.following = Following(source)
        self._kernels = Kernels(self.following, observer.roles.computed, observer.forward_lines.operator_runs)
        #: makes of a function one whose kernels nobody follows
        self.quiet = self._kernels.quiet
        #: what was imported when operators were looked for
        self._modules: frozenset[str] = frozenset()
        self._one_hot: torch.library.Library | None = None

    def install(self) -> None:
        """Follow PyTorch's CUDA kernels from here on."""
        self._kernels.register()
        self._one_hot = follow_one_hot(self.following.shapes)
        install_isclose(self.following.known)
        install_elapsed_time(self.following.reads)
        install_gradcheck(self.following.reads)
        # nobody knows whether what a network gives is a valid parameter; a healthy run's is
        torch.distributions.Distribution.set_default_validate_args(False)
        printing: Any = torch._tensor_str
        printing._str = self.quiet(printing._str)
        printing._tensor_str = _of_values(printing._tensor_str, self.following)

    def follow_imports(self) -> None:
        """Operators that imports have brought are followed too; it takes 10 ms to look for them."""
        if not sys.modules.keys() <= self._modules:
            self._modules = frozenset(sys.modules)
            self._kernels.register()

    def caveats(self, root: str) -> list[Caveat]:
        """What was taken for granted, for the report: reads, sizes and choices, each with its line."""
        return [*self.following.reads.caveats(root), *self.following.shapes.caveats(root)]

    def unknown(self) -> list[str]:
        """Why the test's figure may be another one: what other variants answer otherwise."""
        shapes = self.following.shapes
        found = {*VARIANT.unknown} | ({BOUNDS} if shapes.varies else set())
        if shapes.may_leave_options:
            found.add(CHOICES)
        is_data = self.following.reads.varies or shapes.varies
        return sorted(found | {UNKNOWN_DATA} if is_data else found - {CARD_DRAWS})

    def refused(self) -> list[str]:
        """What was refused in this process that a card would have done, each with its place."""
        self._kernels.see_missed_copies()
        return refused()


def _of_values(show: Callable[..., str], following: Following) -> Callable[..., str]:
    """``show``, which prints a tensor, of the values that a read of it gives."""

    def shown(tensor: torch.Tensor, indent: int) -> str:
        if not tensor.is_cuda:
            return show(tensor, indent)
        if tensor.numel() > torch._tensor_str.PRINT_OPTS.threshold:
            tensor = torch._tensor_str.get_summarized_data(tensor)  # as on the card, where no more is read
        with following.host.own():
            return show(following.reads.array(tensor), indent)

    return shown
