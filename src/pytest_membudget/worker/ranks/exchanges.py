"""What ranks took for each other's values: which of it is right, and who must run so that the rest is."""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from ...results.answer import Answer

#: What is sent at once; each None where it is not known.
_Values = Sequence[Any]
#: All that a rank sends, by group: how often it had sent anything before, and what.
_Sent = Mapping[str, Sequence[tuple[int, _Values]]]


@dataclass(frozen=True, slots=True)
class _Taken:
    """What a rank took for values that another one sends."""

    sent_before: int
    """How often the rank had sent anything itself by then."""
    sender: int
    group: str
    number: int
    """Which it is of all that the sender sends in the group, from 0."""
    values: _Values
    was_received: bool

    @property
    def decides(self) -> bool:
        return self.was_received or any(one is not None for one in self.values)

    def is_what(self, sent: _Values) -> bool:
        """Whether ``sent`` is what it was taken for."""
        if self.was_received:
            return [*self.values] == [*sent]
        return all(mine is None or mine == its for mine, its in zip_longest(self.values, sent))


class Run:
    """A run of a rank, as far as values go from rank to rank."""

    def __init__(self, answer: Answer, received: str) -> None:
        """``received``: the ``broadcasts`` of other ranks that it got, as JSON by rank, or empty."""
        self.answer = answer
        self.received = received
        self.sent = _sent(answer.broadcasts)
        self.taken = _taken(answer.taken, received)


def _sent(broadcasts: str) -> _Sent:
    found: dict[str, list[tuple[int, _Values]]] = defaultdict(list)
    for place, (group, values) in enumerate(json.loads(broadcasts or "[]")):
        found[group].append((place, values))
    return found


def _taken(taken: str, received: str) -> list[_Taken]:
    got = {int(rank): _sent(text) for rank, text in json.loads(received or "{}").items()}
    numbers: Counter[tuple[int, str]] = Counter()
    found = []
    for sent_before, sender, group, values in json.loads(taken or "[]"):
        number = numbers[sender, group]
        numbers[sender, group] += 1
        was_received = values is None
        if was_received:
            of_group = got[sender].get(group, ())
            values = of_group[number][1] if number < len(of_group) else ()
        found.append(_Taken(sent_before, sender, group, number, values, was_received))
    return found


class Exchanges:
    """What follows from the latest ``runs`` of ranks.

    A rank's values are certain up to the first that it sent after it took a wrong one, or one that is not
    certain itself: what it did until then it does with right values too.
    """

    def __init__(self, runs: Mapping[int, Run]) -> None:
        self._runs = runs
        #: how many of the values that each rank took are right, from the first on
        self.right = dict.fromkeys(runs, 0)
        while sum(self._advance(rank) for rank in runs):
            pass

    def is_right(self, rank: int) -> bool:
        """Whether all that ``rank`` took for values of others is what they send."""
        return self.right[rank] == len(self._runs[rank].taken)

    def to_run(self, goal: int) -> list[int]:
        """Who must run now, at once, so that all becomes certain that ``goal`` takes; not ``goal`` itself."""
        wanted = {goal: None}
        for rank in (pending := [goal]):
            found = [one for one in self._uncertain(rank) if one not in wanted]
            wanted |= dict.fromkeys(found)
            pending += found
        new = wanted.keys() - self._runs.keys()
        outdated = {*filter(self._is_outdated, wanted.keys() & self._runs.keys() - {goal})}
        return sorted(new or [rank for rank in outdated if not self._uncertain(rank)] or outdated)

    def _advance(self, rank: int) -> int:
        """Count on; how many there were."""
        before, taken = self.right[rank], self._runs[rank].taken
        while self.right[rank] < len(taken):
            one = taken[self.right[rank]]
            sent = self._certain(one)
            if one.decides and (sent is None or not one.is_what(sent)):
                break
            self.right[rank] += 1
        return self.right[rank] - before

    def _certain(self, one: _Taken) -> _Values | None:
        """What its sender sends there, nothing if no more; None if that is not certain."""
        if one.sender not in self._runs:
            return None
        run, right = self._runs[one.sender], self.right[one.sender]
        is_right = right == len(run.taken)
        sent = run.sent.get(one.group, ())
        if one.number >= len(sent):
            return () if is_right else None
        place, values = sent[one.number]
        return values if is_right or place < run.taken[right].sent_before else None

    def _uncertain(self, rank: int) -> list[int]:
        """The ranks of which ``rank`` took what is not certain."""
        if rank not in self._runs:
            return []
        taken = self._runs[rank].taken[self.right[rank] :]
        lacking = (one.sender for one in taken if one.decides and self._certain(one) is None)
        return [sender for sender in dict.fromkeys(lacking) if sender != rank]

    def _is_outdated(self, rank: int) -> bool:
        """Whether ``rank`` gets more right if it runs again."""
        taken = self._runs[rank].taken
        if self.is_right(rank):
            return False
        first = taken[self.right[rank]]
        return first.sender == rank or self._certain(first) is not None
