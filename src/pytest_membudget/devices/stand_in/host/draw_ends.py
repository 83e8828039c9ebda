"""Single numbers that the host draws: further runs have one end of their range, and then the other.

What decides by one, as whether a layer is dropped, is so tried both ways: another seed may give the same
count of layers. They are what functions of ``random`` and ``numpy.random`` and fills of one element of torch
give, from generators that the test has not seeded; so are rows of few numbers between 0 and 1
and few of a list. Of distributions the ends are those of many draws. What is made of many (a shuffle,
weights) has another seed alone.
"""

import functools
import math
import random
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from types import FrameType
from typing import Any, Final

import torch
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from ....cache.callers import is_installations

#: So many at one line: a loop until something else is drawn ends then, and what decides has been tried.
_MOST: Final = 1000
#: Draws of a distribution, whose least and most are its ends.
_MANY: Final = 300
#: More numbers between 0 and 1 are data, and those of several dimensions: boxes, a small batch.
_MOST_IN_ROW: Final = 64
#: So many bytes of the system are a seed or a name, not a draw.
_LEAST_OF_NAME: Final = 8
#: What a draw between 0 and 1 may be; its logarithm is finite, and fp32 has it.
_UNIT: Final = (2**-24, 1 - 2**-24)
_OWN_CODE: Final = __name__.partition(".")[0]

Ends = tuple[Any, Any]
#: By the arguments of a draw its ends; None: those of many such draws.
EndsOf = Callable[..., Ends] | None


class DrawEnds:
    """Which end the draws of this process have."""

    def __init__(self) -> None:
        #: whether any was drawn
        self.drew = False
        self._end: int | None = None
        self._asked = Counter[tuple[str, int]]()
        self._seeded: set[str] = set()
        self._torch_seed = 0
        #: while files are imported, of ``random`` what draws for libraries
        self._libraries: random.Random | None = None

    def install(self) -> None:
        """Follow the functions of ``random``, and of NumPy where it is there, for the rest of the process."""
        self._follow(random, "random", _OF_PYTHON)
        if (numpy := sys.modules.get("numpy")) is not None:
            self._follow(numpy.random, "numpy", _OF_NUMPY)
            self._follow_unseeded(numpy.random)
        self._follow_workers()

    def begin(self, end: int | None, torch_seed: int, *, is_importing: bool = False) -> None:
        """A test begins, or imports do, and all were seeded: ``end`` 0 is the lower one, 1 the upper one.

        Of ``random`` a library that is imported has another generator: it numbers something by it.
        """
        self._libraries = random.Random(0) if is_importing else None
        self._end, self._torch_seed, self.drew = end, torch_seed, False
        self._asked.clear()
        self._seeded.clear()

    def of_fill(self, name: str, tensor: torch.Tensor, args: Sequence[Any], generator: Any) -> Sequence[Any]:
        """The arguments of the fill ``name`` of a host tensor: others where it draws a single number."""
        ends = _FILLS.get(name)
        # a weight of one element decides nothing
        if ends is None or not _may_decide(tensor.shape, name) or isinstance(tensor, torch.nn.Parameter):
            return args
        if self._is_seeded(generator) or not self._takes():
            return args
        chosen: Sequence[Any] = ends(*args)[self._end or 0]
        return chosen

    def library_function(self, generator: str, function: Any) -> Any:
        """What draws in place of ``function`` of ``generator``, where a library calls it that is imported."""
        own = getattr(self._libraries, getattr(function, "__name__", ""), None)
        return own if generator == "random" and own is not None and is_installations(in_test=True) else None

    def of_call(self, generator: str, drawn: Any, ends: Callable[[], Ends]) -> Any:
        """What a call has ``drawn`` from ``generator``, or one of its ``ends``."""
        return ends()[self._end or 0] if generator not in self._seeded and self._takes() else drawn

    def of_bytes(self, drawn: bytes) -> bytes:
        """The system's bytes, if they are few: many make a seed, or a name that nobody else has."""
        if len(drawn) >= _LEAST_OF_NAME:
            return drawn
        ends = bytes(len(drawn)), b"\xff" * len(drawn)
        return bytes(self.of_call("", drawn, lambda: ends))

    def seeded(self, generator: str) -> None:
        """The test gives ``generator`` a seed: what it draws is no question any more."""
        self._seeded.add(generator)

    def seeded_names(self) -> list[str]:
        """The generators that were given a seed, by the name that reports have for them."""
        return [*self._seeded, *(["torch"] if self._is_seeded() else [])]

    def _takes(self) -> bool:
        self.drew = True
        if self._end is None:
            return False
        frame = _asking()
        line = frame.f_code.co_filename, frame.f_lineno
        self._asked[line] += 1
        return self._asked[line] <= _MOST

    def _follow(self, module: Any, generator: str, ends: dict[str, EndsOf]) -> None:
        for name, ends_of in ends.items():
            setattr(module, name, _Drawing(self, generator, getattr(module, name), ends_of))
        module.seed = _Seeding(self, generator, module.seed)

    def _follow_unseeded(self, module: Any) -> None:
        """NumPy's generators that are made without a seed."""
        make = module.default_rng

        class Unseeded(module.Generator):  # type: ignore[misc] # NumPy's own is written in C, and has no room
            pass

        @functools.wraps(make)
        def default_rng(seed: Any = None) -> Any:
            if seed is not None:
                return make(seed)
            return self.follow_own(Unseeded(make().bit_generator), _OF_NUMPY | _OF_GENERATOR)

        module.default_rng = default_rng

    def _follow_workers(self) -> None:
        """A DataLoader draws the seeds of its workers, which so are none of the test's."""
        start = _MultiProcessingDataLoaderIter.__init__

        @functools.wraps(start)
        def started(iterator: Any, loader: Any) -> None:
            init = loader.worker_init_fn
            if not self._is_seeded(loader.generator):
                self.drew = True
                loader.worker_init_fn = functools.partial(_begin_worker, init)
            try:
                start(iterator, loader)
            finally:
                loader.worker_init_fn = init

        setattr(_MultiProcessingDataLoaderIter, "__init__", started)  # noqa: B010 # mypy lets none be set

    def in_worker(self) -> None:
        """A DataLoader has given all generators of this process seeds that it drew."""
        self._seeded.clear()
        self._torch_seed = torch.default_generator.initial_seed()

    def _is_seeded(self, generator: Any = None) -> bool:
        default = torch.default_generator
        return generator not in (None, default) or default.initial_seed() != self._torch_seed

    def follow_own(self, generator: Any, ends: dict[str, EndsOf] | None = None) -> Any:
        """``generator``, which has no seed, with draws at their ends; Python's where no others are given."""
        for name, ends_of in (ends or _OF_PYTHON).items():
            if (method := getattr(generator, name, None)) is not None:
                setattr(generator, name, _Drawing(self, "", method, ends_of))
        return generator

    def leave_own(self, generator: random.Random) -> None:
        """It is given a seed: what it draws then is no question any more."""
        for name in [name for name, one in vars(generator).items() if isinstance(one, _Drawing)]:
            delattr(generator, name)


class _Followed:
    """In place of a function, but none: Dynamo would go into it, and not take it for one of ``random``."""

    def __init__(self, ends: DrawEnds, generator: str, function: Any) -> None:
        self._ends, self._generator, self._function = ends, generator, function

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_function"], name)

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._function.__reduce_ex__(protocol)


class _Seeding(_Followed):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if [*args, *kwargs.values()][:1] not in ([], [None]):
            self._ends.seeded(self._generator)
        return self._function(*args, **kwargs)


class _Drawing(_Followed):
    def __init__(self, ends: DrawEnds, generator: str, function: Any, ends_of: EndsOf) -> None:
        super().__init__(ends, generator, function)
        self._ends_of = ends_of or self._of_many

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        of_library = self._ends.library_function(self._generator, self._function)
        if of_library is not None:
            return of_library(*args, **kwargs)
        drawn = self._function(*args, **kwargs)
        shape = (len(drawn),) if self._ends_of in _LISTS else getattr(drawn, "shape", ())
        if not _may_decide(shape, self._ends_of):
            return drawn
        return self._ends.of_call(
            self._generator, drawn, lambda: _as_drawn(drawn, self._ends_of(*args, **kwargs))
        )

    def _of_many(self, *args: Any, **kwargs: Any) -> Ends:
        many = [self._function(*args, **kwargs) for _ in range(_MANY)]
        return min(many), max(many)


def _begin_worker(init: Callable[[int], None] | None, number: int) -> None:
    DRAW_ENDS.in_worker()
    if init is not None:
        init(number)


def _as_drawn(drawn: Any, ends: Ends) -> Ends:
    """``ends`` in the form of NumPy's, or of Python's."""
    low, high = ends
    if getattr(drawn, "shape", None):
        made = drawn.copy(), drawn.copy()
        made[0][...] = low
        made[1][...] = high
        return made
    kind: Any = type(drawn)
    return (kind(low), kind(high)) if isinstance(drawn, Real) else ends


def _asking() -> FrameType:
    """The innermost frame that is none of this package's."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == _OWN_CODE:
        frame = frame.f_back
    return frame


def _unit(*_args: Any, **_kwargs: Any) -> Ends:
    return _UNIT


def _within(low: Any, high: Any) -> Ends:
    return low + (high - low) * _UNIT[0], low + (high - low) * _UNIT[1]


def _whole(a: int, b: int) -> Ends:
    return a, b


def _of_uniform(low: Any = 0.0, high: Any = 1.0, *_more: Any, **_kwargs: Any) -> Ends:
    return _within(*_numbers(low, high))


def _whole_below(low: Any, high: Any = None, *_more: Any, **_kwargs: Any) -> Ends:
    low, high = _numbers(0, low) if high is None else _numbers(low, high)
    return low, high - 1


def _of_integers(
    low: Any, high: Any = None, _size: Any = None, _dtype: Any = None, endpoint: bool = False, **_kwargs: Any
) -> Ends:
    least, most = _whole_below(low, high)
    return least, most + endpoint


def _numbers(*given: Any) -> list[Any]:
    """What is given for numbers, of which NumPy takes rows too."""
    return [one if isinstance(one, Real) else sys.modules["numpy"].asarray(one) for one in given]


def _of_range(*args: Any, **kwargs: Any) -> Ends:
    options = range(*args, *kwargs.values())
    return min(options[0], options[-1]), max(options[0], options[-1])


def _of_options(seq: Any) -> Ends:
    """The least and the most; of what are no numbers the first and the last."""
    if isinstance(seq, range):
        return _of_range(seq.start, seq.stop, seq.step)
    if all(isinstance(one, Real) for one in seq):
        return min(seq), max(seq)
    return seq[0], seq[-1]


def _of_choices(population: Any, weights: Any = None, *, cum_weights: Any = None, k: int = 1) -> Ends:
    least, most = _of_choice(population, p=weights)
    return [least] * k, [most] * k


def _of_sample(population: Any, k: int, *, counts: Any = None) -> Ends:
    """The least and the most of them; of what are no numbers the first and the last."""
    if counts is not None:
        population = [one for one, count in zip(population, counts, strict=True) for _ in range(count)]
    if not isinstance(population, range) and all(isinstance(one, Real) for one in population):
        population = sorted(population)
    return [*population[:k]], [*population[len(population) - k :]]


def _of_choice(a: Any, _size: Any = None, _replace: bool = True, p: Any = None, **_kwargs: Any) -> Ends:
    """NumPy's, which may have shares."""
    options = range(a) if isinstance(a, Integral) else a
    return _of_options(
        options if p is None else [one for one, share in zip(options, p, strict=True) if share]
    )


def _of_binomial(n: Any, p: Any, *_more: Any, **_kwargs: Any) -> Ends:
    n, p = _numbers(n, p)
    return 0 if p < 1 else n, n if p > 0 else 0


_OF_PYTHON: Final[dict[str, EndsOf]] = {
    "random": _unit,
    "uniform": _within,
    "randint": _whole,
    "randrange": _of_range,
    "choice": _of_options,
    "getrandbits": lambda k: (0, 2**k - 1),
    "choices": _of_choices,
    "sample": _of_sample,
    **dict.fromkeys((
        "betavariate", "expovariate", "gammavariate", "gauss", "lognormvariate", "normalvariate",
        "triangular",
    )),
}  # fmt: skip
_OF_NUMPY: Final[dict[str, EndsOf]] = {
    **dict.fromkeys(("rand", "random", "random_sample", "ranf", "sample"), _unit),
    "uniform": _of_uniform,
    "randint": _whole_below,
    "choice": _of_choice,
    "binomial": _of_binomial,
    **dict.fromkeys((
        "beta", "exponential", "gamma", "geometric", "lognormal", "normal", "poisson", "randn",
        "standard_normal",
    )),
}  # fmt: skip
#: Of NumPy's generators, in addition to those.
_OF_GENERATOR: Final[dict[str, EndsOf]] = {"integers": _of_integers}


def _fill_within(low: float = 0.0, high: float = 1.0) -> Ends:
    least, most = _within(low, high)
    return (least, least), (most, most)


#: Of fills, by the arguments that they are given, those that give one end and the other.
_FILLS: Final[dict[str, Callable[..., Ends]]] = {
    "uniform_": _fill_within,
    "normal_": lambda mean=0.0, std=1.0: ((mean - 3 * std, 0.0), (mean + 3 * std, 0.0)),
    "random_.from": lambda low, high: ((low, low + 1), (high - 1, high)),
    "bernoulli_.float": lambda p=0.5: ((0.0,), (1.0,)) if 0 < p < 1 else ((p,), (p,)),
    "bernoulli_.Tensor": lambda p: ((p.ge(1).to(p.dtype),), (p.gt(0).to(p.dtype),)),
}

#: What draws shares, as of layers that are dropped: a row of them has ends too.
_SHARES: Final = {"uniform_", "bernoulli_.float", "bernoulli_.Tensor", _unit, _of_uniform}
#: What gives lists; few are each one that decides perhaps.
_LISTS: Final = {_of_choices, _of_sample}


def _may_decide(shape: Sequence[int], by: object) -> bool:
    """Whether what was drawn is a single number, or a row of few, each of which decides perhaps."""
    is_row = len(shape) == 1 and shape[0] <= _MOST_IN_ROW and by in _SHARES | _LISTS
    return is_row or math.prod(shape) == 1


#: Of this process, which runs one test.
DRAW_ENDS: Final = DrawEnds()
