"""Broadcasts: numbers and objects that ranks send each other, passed on to the ranks that run after them.

A rank runs alone. What others send is not there; but what is known of the tensors of a rank that has run,
and its plain objects, are what it would bring. Of what is not known the other ranks have what is their own,
and of gathered objects those of the nearest rank that has run, which is more often in the same stage.
Where values of a rank that has not run may decide, that one is run, and then this one again.
"""

import ast
import json
from collections import defaultdict, deque
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import torch
import torch.distributed as dist

from ....caveats import OTHER_OBJECTS, Caveat, caveats_of
from ....results.answer import GATHERED
from ....tracking.running_code.source import Place, SourceFinder
from .identical_ranks import MOST_RANKS
from .numbers import RankNumbers

#: Most elements of a tensor and most parts of an object that are handed on: sizes, numbers, settings.
_MOST_ELEMENTS = 2**16
#: What a literal of Python's can be made of.
_ATOMS = (type(None), bool, int, float, complex, str, bytes)
_LISTS = (list, tuple, set)

#: A broadcast's tensors or objects, each None where it is not known.
_Sent = list[Any]
#: What is taken for one that decides, and has no text: nothing that is sent equals it.
_UNSAID = False


class Broadcasts:
    """What each rank has sent to each process group, in order: recorded of this rank, received of others."""

    def __init__(self, known: RankNumbers, rank: int, received: str, source: SourceFinder) -> None:
        """``received``: the results of ``sent`` on ranks that have run, as JSON by rank, or empty."""
        self._known = known
        self._rank = rank
        self._source = source
        self._sent: list[tuple[str, _Sent]] = []
        got: dict[str, str] = json.loads(received) if received else {}
        #: the ranks that have run
        self._have_run = {int(other) for other in got}
        self._waiting: dict[tuple[int, str], deque[_Sent]] = defaultdict(deque)
        for other, text in got.items():
            for group, sent in json.loads(text) if text else ():
                self._waiting[int(other), group].append(sent)
        #: ranks that have not run, and whose values decide what this one does
        self.missing: dict[int, None] = {}
        #: how much this rank had sent, of whom it then took something, and what; see ``Answer.taken``
        self._taken: list[tuple[int, int, str, _Sent | None]] = []
        #: lines with objects of other ranks that are taken to be this rank's
        self._guessed: dict[Place, None] = {}
        #: whether objects have gone from rank to rank
        self.was_used = False
        #: whether this rank has sent anything, or asked for what others send: else that decides nothing
        self.has_exchanged = False

    def sent(self) -> str:
        """All that this rank has sent, as text; empty unless another could use it."""
        is_of_use = any(one is not None for _, sent in self._sent for one in sent)
        return json.dumps(self._sent) if is_of_use else ""

    def taken(self) -> str:
        """What is taken for all that others send, as text: see ``Answer.taken``."""
        return json.dumps(self._taken) if self._taken else ""

    def tensors(self, group: Any, root: int, tensors: Sequence[torch.Tensor]) -> None:
        """``tensors`` are broadcast from ``root``, a rank of ``group``."""
        self.has_exchanged = True
        sender = dist.get_process_group_ranks(group)[root]
        if sender == self._rank:
            self._sent.append((group.group_name, [self._numbers(tensor) for tensor in tensors]))
        elif sender not in self._have_run:
            self._take(sender, group.group_name, [self._guess(sender, one) for one in tensors])
        else:
            self._take(sender, group.group_name)
            sent = self._next(sender, group.group_name)
            for tensor, numbers in zip_longest(tensors, sent[: len(tensors)]):
                self._receive(tensor, numbers)

    def _guess(self, sender: int, tensor: torch.Tensor) -> Any:
        """``sender`` has not run: whole numbers and the host's decide what follows; others stay its own.

        Returns what is taken for those that decide, which is right, or this rank runs again.
        """
        is_number = tensor.is_floating_point() or tensor.is_complex()
        decides = tensor.numel() <= _MOST_ELEMENTS and not (is_number and tensor.is_cuda)
        numbers = self._numbers(tensor) if decides else None
        values = self._known.of(tensor) if tensor.numel() <= _MOST_ELEMENTS else None
        if values is not None and decides:
            self._known.keep(tensor, values)
        elif values is not None:
            self._known.overwrite(tensor, values, assumed=True)
        return (numbers or _UNSAID) if decides else None

    def _receive(self, tensor: torch.Tensor, numbers: Any) -> None:
        if numbers is None or numbers[:2] != [str(tensor.dtype), list(tensor.shape)]:
            self._known.forget(tensor)
        elif isinstance(numbers[2], list):
            self._known.keep(tensor, torch.tensor(numbers[2], dtype=tensor.dtype).reshape(tensor.shape))
        else:
            self._known.note(tensor, numbers[2])

    def objects(self, group: Any, root: int, objects: list[Any], *, decide: bool = True) -> None:
        """``objects`` are broadcast from ``root``, a rank of ``group``: on others they become what it has.

        ``decide``: what they are may decide what this rank does.
        """
        self.was_used = self.has_exchanged = True
        sender = dist.get_process_group_ranks(group)[root]
        if sender == self._rank:
            self._sent.append((group.group_name, [_text(one) for one in objects]))
            return
        if sender not in self._have_run:
            own = [(_text(one) or _UNSAID) if decide else None for one in objects]
            self._take(sender, group.group_name, own)
        else:
            self._take(sender, group.group_name)
        for place, text in enumerate(self._next(sender, group.group_name)[: len(objects)]):
            if text is not None:
                objects[place] = ast.literal_eval(text)

    def gathered(self, group: Any, own: Any, *, receives: bool = True) -> list[Any]:
        """What each rank of ``group`` gives where this one gives ``own``: that, of ranks not known."""
        key = group.group_name + GATHERED
        self._sent.append((key, [_text(own)]))
        self.was_used = self.has_exchanged = True
        members = dist.get_process_group_ranks(group)
        decide = receives and len(members) <= MOST_RANKS
        texts = {member: next(iter(self._next(member, key)), None) for member in members}
        texts[self._rank] = _text(own)
        have_run = [member for member in members if member in self._have_run]
        is_known = True
        for member in {*members} - {self._rank}:
            if not receives or (member not in have_run and not decide):
                self._take(member, key, [None])
            elif member in have_run:
                self._take(member, key)
            else:
                near = min(have_run, key=lambda one: abs(one - member), default=self._rank)
                texts[member] = texts[near] or texts[self._rank]
                self._take(member, key, [texts[member] or _UNSAID])
                continue
            is_known = is_known and texts[member] is not None
        if receives and not is_known:
            self._guessed[self._source.place(2)] = None
        return [own if texts[one] is None else ast.literal_eval(str(texts[one])) for one in members]

    def send(self, group: Any, goal: int, objects: Sequence[Any], *, identical: bool) -> None:
        """``objects`` go to rank ``goal`` of ``group``.

        ``identical``: a rank of any group sends what ranks with its number in other groups send.
        """
        self.was_used = self.has_exchanged = True
        key = _between(group, dist.get_rank(group), goal, identical)
        self._sent.append((key, [_text(one) for one in objects]))

    def received(self, group: Any, source: int, *, identical: bool) -> list[Any]:
        """What rank ``source`` of ``group`` sends this one, or where ``identical`` another does."""
        self.was_used = self.has_exchanged = True
        sender = dist.get_process_group_ranks(group)[source]
        key = _between(group, source, dist.get_rank(group), identical)
        giver = sender
        if sender not in self._have_run:
            others = [rank for rank, waiting in [*self._waiting] if waiting == key]
            giver = min(others, key=lambda one: abs(one - sender), default=sender)
            self._take(sender, key, [None if others else _UNSAID])
        else:
            self._take(sender, key)
        texts = self._next(giver, key)
        return [] if None in texts else [ast.literal_eval(text) for text in texts]

    def _take(self, sender: int, key: str, values: _Sent | None = None) -> None:
        """``values`` are taken for what ``sender``, which has not run, sends next; None: what it has sent."""
        self._taken.append((len(self._sent), sender, key, values))
        if any(one is not None for one in values or ()):
            self.missing[sender] = None

    def caveats(self, root: str) -> list[Caveat]:
        """The lines whose objects of other ranks nobody knows; paths are relative to ``root``."""
        text = "{} gathers objects of other ranks, which are taken to be this rank's own"
        return caveats_of(OTHER_OBJECTS, (text.format(place.shown(root)) for place in self._guessed))

    def _next(self, sender: int, key: str) -> _Sent:
        """What ``sender`` has sent next under ``key``."""
        waiting = self._waiting[sender, key]
        return waiting.popleft() if waiting else []

    def _numbers(self, tensor: torch.Tensor) -> list[Any] | None:
        """Type, shape, and all values or the one that all are."""
        if self._known.is_assumed(tensor):
            if self.missing:  # it may rest on those: nobody knows that it is unknown
                self._taken.append((len(self._sent), self._rank, "", [_UNSAID]))
            return None
        if tensor.is_complex():
            return None
        numbers: Any = self._known.uniform(tensor)
        if numbers is None:
            values = self._known.of(tensor) if tensor.numel() <= _MOST_ELEMENTS else None
            if values is None:
                return None
            numbers = values.reshape(-1).tolist()
        return [str(tensor.dtype), list(tensor.shape), numbers]


def _between(group: Any, source: int, goal: int, identical: bool) -> str:
    """The key of what rank ``source`` of ``group`` sends its rank ``goal``."""
    return f"{source} to {goal}" if identical else f"{group.group_name} {source} to {goal}"


def _text(value: Any) -> str | None:
    """``value`` as a literal of Python's; None for what is none, or large."""
    if not _is_plain(value):
        return None
    text = repr(value)
    try:
        return text if ast.literal_eval(text) == value else None
    except (ValueError, SyntaxError, MemoryError, RecursionError):  # not a number, or deeply nested
        return None


def _is_plain(value: Any) -> bool:
    """Whether ``value`` is data alone: the text of anything else may be long, and may read tensors."""
    waiting = [value]
    for _ in range(_MOST_ELEMENTS):
        if not waiting:
            return True
        one = waiting.pop()
        if type(one) is dict:
            waiting += [*one, *one.values()]
        elif type(one) in _LISTS:
            waiting += one
        elif type(one) not in _ATOMS:
            return False
    return False
