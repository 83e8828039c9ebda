"""Reads of data that is not there: the answers given, and the list of them for the report."""

import importlib
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

from ....assumptions import assumed_value
from ....caveats import GIVEN, READ, SIZE_READ, WORST_CASE, Cause, Caveat
from ....results.varied import BOUNDS, LOOPS, NUMBERS, TRUTHS
from ....tracking.roles.tensor_parts import dtype_name
from ....tracking.running_code.source import Place, SourceFinder
from ....units import times_text
from .card_storages import Scalar
from .known_values import KnownValues, plausible
from .on_host import NotKnown, OnHost
from .options import ARE_DIFFERENT, choice_of, options_of
from .sized_by_data import trues
from .supposed_values import SupposedValues
from .variants import VARIANT, ended_text

aten = torch.ops.aten

#: Operators that give a number of Python's, not a tensor.
READS = frozenset({aten._local_scalar_dense.default, aten.equal.default, aten.allclose.default})

#: Operators that count a mask's trues: read, the count is that of the elements which the mask selects.
_COUNTS_TRUES = frozenset({aten.sum.dim_IntList, aten.count_nonzero.dim_IntList})
_SUM = aten.sum.dim_IntList
_JOIN = aten.cat.default

#: Those, and what a count is after them still a count: the same one, or counts together.
COUNTS = _COUNTS_TRUES | {aten.copy_.default, aten.max.default, aten.amax.default, _JOIN}

#: What asks how long kernels take.
_CHOOSING = ("torch.", "triton.")
#: Reads at a line after which none is the first that is no improvement.
_PATIENCE: Final = 3
#: Values of one line that a report lists.
_MOST_VALUES = 3


@dataclass(frozen=True, slots=True)
class Read:
    """Reads of unknown data of one type at one line of the user's code."""

    place: Place
    dtype: str


class Answers:
    """What those reads were given: how often, and which plausible values."""

    __slots__ = ("_kinds", "count", "values")

    def __init__(self) -> None:
        self.count = 0
        self.values: dict[str, None] = {}
        self._kinds: set[Cause] = set()

    def add(self, value: Scalar | str, kind: Cause) -> None:
        """One more."""
        self.count += 1
        self.values[str(value)] = None
        self._kinds.add(kind)

    @property
    def kind(self) -> Cause:
        """Of the answers the one that says least of a figure."""
        return next(kind for kind in (SIZE_READ, READ, WORST_CASE, GIVEN) if kind in self._kinds)

    def __str__(self) -> str:
        values = ", ".join(list(self.values)[:_MOST_VALUES])
        more = len(self.values) - _MOST_VALUES
        others = f" and {more} other values" if more > 0 else ""
        return f"({times_text(self.count)}): taken to be {values}{others}"


class _Numbers(KnownValues):
    """How many there are of what a storage holds: that is not written to it."""

    def number(self, tensor: torch.Tensor) -> int | None:
        """Of what ``tensor`` holds; None where it is not known."""
        found = self.uniform(tensor)
        return found if isinstance(found, int) else None

    def _placed(self, tensor: torch.Tensor, values: torch.Tensor | Scalar) -> torch.Tensor | Scalar:
        return values


class Reads:
    """Answers reads of data: with the value where it is known, else with a plausible one, which is listed."""

    def __init__(self, known: KnownValues, supposed: SupposedValues, source: SourceFinder) -> None:
        #: which lines read data whose value nobody knows, and what they were given
        self.assumed: dict[Read, Answers] = {}
        self._source = source
        self._known = known
        self._supposed = supposed
        #: how many truths were read: of several one may hold where another does not
        self._truths = 0
        #: what a truth is taken to be
        self.truth = False
        #: the line of the last one that no ``assume`` has answered, as ``file:line``
        self.last_line = ""
        #: of masks that nobody knows; not known to operators, which would loop until none are left
        self._counts = _Numbers(known.storages)
        #: among how many a choice was made that nobody knows: its numbers are below that; where those of a
        #: row are different, the same below zero
        self._options = _Numbers(known.storages)

    def forget_at(self, key: int) -> None:
        """The storage with this ``key`` is no more."""
        self._counts.forget_at(key)
        self._options.forget_at(key)

    def forget_all(self) -> None:
        """Nothing is known of any tensor any more."""
        self._counts.forget_all()
        self._options.forget_all()

    @property
    def counted(self) -> tuple[Collection[int], Collection[int]]:
        """Of the storages with counts, and with choices, as their keys: always the same objects."""
        return self._counts.keys, self._options.keys

    def see_choice(self, operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> None:
        """``operator`` has chosen among options."""
        choice = choice_of(operator, result)
        if not self._known.knows(choice):
            options = options_of(operator, args, kwargs)
            self._options.note(choice, -options if operator in ARE_DIFFERENT else options)

    def see_count(self, operator: Any, args: Sequence[Any], result: torch.Tensor) -> None:
        """``operator``, one of ``COUNTS``, ran: of a mask, of counts or of choices."""
        source = args[1] if operator is aten.copy_.default else args[0]
        if operator is _JOIN:
            options = [abs(self._options.number(one) or 0) for one in source]
            if all(options):
                self._options.note(result, max(options, default=0))
            return
        if operator in _COUNTS_TRUES and source.dtype is torch.bool:
            if result.numel() and not self._known.knows(result):
                with VARIANT.sizes_at(self._line()):
                    self._counts.note(result, trues(source.numel() // result.numel())[0])
            return
        added = source.numel() // max(result.numel(), 1) if operator is _SUM else 1
        self._pass_on(self._counts, source, result, added)
        if operator not in _COUNTS_TRUES:
            self._pass_on(self._options, source, result, 1)

    def _pass_on(self, noted: KnownValues, source: torch.Tensor, result: torch.Tensor, added: int) -> None:
        """``result`` is as ``source``, of which something may be ``noted``, ``added`` so many times."""
        number = noted.stored(source)
        if number is None or isinstance(number, torch.Tensor) or result.dtype is torch.bool:
            noted.forget(result)  # of ``copy_``
        elif noted.is_whole(result) and not self._known.knows(result):
            noted.note(result, number * added)

    def answer(self, operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Scalar:
        """What ``operator``, one of ``READS``, gives."""
        if operator is aten._local_scalar_dense.default:
            return self._number(args[0])
        return self._comparison(operator, args, kwargs)

    def array(self, tensor: torch.Tensor) -> torch.Tensor:
        """All values of ``tensor`` as a real host tensor of its shape; one read."""
        values = self.certain(tensor)
        if values is not None:
            return values
        values, kind = self._plausible(tensor)
        if tensor.numel():
            first, last = values.flatten()[0].item(), values.flatten()[-1].item()
            self.list_assumed(tensor.dtype, first if first == last else f"{first} to {last}", kind)
        return values

    def unlisted(self, tensor: torch.Tensor) -> torch.Tensor:
        """Plausible values of ``tensor`` as a real host tensor of its shape, that nothing decides by yet."""
        return self._plausible(tensor)[0]

    def list_assumed(self, dtype: torch.dtype, value: Scalar | str, kind: Cause | None = None) -> None:
        """Whoever runs has been given ``value`` without anybody knowing it; ``kind``: None for any value."""
        place = self._source.place(3)
        read = Read(place, dtype_name(dtype))
        if kind is not GIVEN:
            self.last_line = place.name
        shown = f"{value}, by assume()" if kind is GIVEN else value
        answers = self.assumed.setdefault(read, Answers())
        answers.add(shown, kind or kind_of_read(dtype))
        if kind is None and dtype is not torch.bool:
            VARIANT.unknown.add(NUMBERS)
            if dtype.is_floating_point and answers.count > _PATIENCE:
                VARIANT.unknown.add(LOOPS)

    @property
    def varies(self) -> bool:
        """Whether a read was answered with what nobody knows, and ``assume`` does not fix."""
        return any(answers.kind is not GIVEN for answers in self.assumed.values())

    def _line(self) -> str:
        file, line = self._source.find(3)
        return f"{file}:{line}"

    def caveats(self, root: str) -> list[Caveat]:
        """Those reads for the report, each with its line; paths are relative to ``root``."""
        found = []
        for read, answers in self.assumed.items():
            article = "an" if read.dtype.startswith("int") else "a"
            text = f"{read.place.shown(root)} reads {article} {read.dtype} value {answers}"
            found.append(Caveat(answers.kind, text + ended_text(read.place, "read")))
        return found

    def by_frequency(self, root: str) -> list[str]:
        """Their texts, the most frequent first."""
        counted = zip((answers.count for answers in self.assumed.values()), self.caveats(root), strict=True)
        return [caveat.text for _, caveat in sorted(counted, key=lambda entry: -entry[0])]

    def _number(self, tensor: torch.Tensor) -> Scalar:
        values = self.certain(tensor)
        if values is not None:
            return values.item()
        values, kind = self._plausible(tensor)
        value: Scalar = values.item()
        self.list_assumed(tensor.dtype, value, kind)
        return value

    def _plausible(self, tensor: torch.Tensor) -> tuple[torch.Tensor, Cause | None]:
        """Values for a read of what is not certain, and why these; None: they could be any."""
        values = self._known.of(tensor)
        if values is not None:
            # a drawn whole number is the largest of its range
            is_size = kind_of_read(tensor.dtype) is SIZE_READ
            self._see_truths(tensor.dtype, 2)  # within its range it may be the other one
            values = VARIANT.drawn(values, self._line())
            return values, WORST_CASE if is_size else None
        given: Sequence[Scalar]
        kind: Cause | None = WORST_CASE
        count = self._counts.number(tensor)
        if count is not None:
            VARIANT.unknown.add(BOUNDS)  # of a mask's trues, all or the assumed share
            given = VARIANT.counts(count, tensor.numel())
        else:
            given, kind = self._any(tensor.dtype, tensor.numel(), self._options.number(tensor))
        made = torch.tensor(given, dtype=tensor.dtype, device="cpu")
        if len(given) == 1:
            return made.view(()).expand(tuple(tensor.shape)), kind
        made = made.repeat(-(-tensor.numel() // len(given)))[: tensor.numel()]
        if tensor.is_floating_point():
            # a further one: the largest or the least is at the end
            made[-1] = torch.tensor(2 * given[-1] - given[-2], device="cpu")
        return made.view(tuple(tensor.shape)), kind

    def _any(
        self, dtype: torch.dtype, count: int = 1, options: int | None = None
    ) -> tuple[Sequence[Scalar], Cause | None]:
        value = self.truth if dtype is torch.bool else plausible(dtype)
        given = assumed_value(type(value))
        if given is not None:
            return [given], GIVEN
        line = self._line()
        self._see_truths(dtype, count)
        if options is not None:
            return VARIANT.options(line, count, options), None
        return VARIANT.answers(dtype, value, line, count), None

    def _see_truths(self, dtype: torch.dtype, count: int) -> None:
        if dtype is torch.bool:
            self._truths += count
            if self._truths > 1:
                VARIANT.unknown.add(TRUTHS)

    def milliseconds(self) -> float:
        """A time between two events."""
        [value], kind = self._any(torch.float32)
        self.list_assumed(torch.float32, value, kind)
        return float(value.real)

    def certain(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """Values that follow from the program, or from a choice that the report lists already.

        As are whole numbers that all ranks have, of which no variant has others; a flag, of overflow in fp32
        too, may hold on another rank alone.
        """
        if self._known.knows(tensor):
            is_same = kind_of_read(tensor.dtype) is SIZE_READ and self._known.is_of_all_ranks(tensor)
            return self._known.of(tensor) if is_same or not self._known.is_assumed(tensor) else None
        if not self._supposed.is_assumed(tensor):  # not counted
            return None
        self._supposed.use(tensor)
        return self._supposed.of(tensor)

    def _comparison(self, operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        first, second = args[:2]
        if first is second:
            return True
        if first.shape != second.shape and operator is aten.equal.default:
            return False
        host = OnHost(self._known)
        try:
            found = bool(host.run(operator, args, kwargs))
        except NotKnown:
            # tests and loops compare what they take to be equal
            line = self._line()
            self._see_truths(torch.bool, 1)
            found = bool(VARIANT.answer(torch.bool, True, line))
        else:
            if not host.assumed:
                return found
        self.list_assumed(torch.bool, found)
        return found


def kind_of_read(dtype: torch.dtype) -> Cause:
    """What a read of unknown data of this type is: a whole number may be a size, others are none."""
    is_whole = not (dtype.is_floating_point or dtype.is_complex or dtype is torch.bool)
    return SIZE_READ if is_whole else READ


def install_elapsed_time(reads: Reads) -> None:
    """Answer how long work of the card has taken; not who chooses among kernels by it: all take as long."""
    event: Any = torch.cuda.Event
    original = event.elapsed_time

    def elapsed_time(begin: torch.cuda.Event, end: torch.cuda.Event) -> float:
        fixed: float = original(begin, end)
        asking = sys._getframe(1).f_globals.get("__name__", "")
        return fixed if asking.startswith(_CHOOSING) else reads.milliseconds()

    event.elapsed_time = elapsed_time


def install_isclose(known: KnownValues) -> None:
    """Take unknown tensors that are compared to be close: ``torch.testing.assert_close`` asks so."""
    original: Any = torch.isclose

    def isclose(*args: Any, **kwargs: Any) -> torch.Tensor:
        result: torch.Tensor = original(*args, **kwargs)
        if known.storages.follows(result) and not known.knows(result):
            known.note(result, True, assumed=True)
        return result

    torch.isclose = isclose
    torch.Tensor.isclose = isclose  # type: ignore[method-assign]


def install_gradcheck(reads: Reads) -> None:
    """Take gradients of zeros to be zeros: ``torch.autograd.gradcheck`` asks so."""
    module: Any = importlib.import_module("torch.autograd.gradcheck")  # in torch.autograd, a function

    def taking_true(check: Callable[..., bool]) -> Callable[..., bool]:
        def run(*args: Any) -> bool:
            reads.truth = True
            try:
                return check(*args)
            finally:
                reads.truth = False

        return run

    module._test_backward_mul_by_grad_output = taking_true(module._test_backward_mul_by_grad_output)
    module._test_undefined_backward_mode = taking_true(module._test_undefined_backward_mode)
