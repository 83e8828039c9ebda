"""A worker that is not there: it answers what it is told, and remembers what it was sent."""

from dataclasses import replace

from pytest_membudget.components import METRICS
from pytest_membudget.errors import WorkerFailure
from pytest_membudget.memory_report import MemoryReport
from pytest_membudget.results.answer import TRACED, Answer, OtherRanks

REPORT = MemoryReport("traced", "allocated", dict.fromkeys(METRICS, 512), {"parameters": 512}, seconds=1.0)


def traced(request):
    """The answer of a test that takes 512 bytes; of rank 0, that ranks 1 and 3 differ."""
    return Answer(TRACED, reports=(replace(REPORT, rank=request.rank),), other_ranks=OtherRanks((0, 1, 3)))


class ScriptedWorkers:
    """Starts all workers of a test: ``workers`` in their order, with what each was sent.

    ``answer_to(request)``: an answer, or an exception to raise. A worker is lost as soon as one of the tests
    ``killers`` is pending. ``holds``: how many requests it takes at once.
    ``imported_bytes``: what the next ones hold since their imports. ``asks_place``: whether those ask for
    their rank.
    """

    def __init__(self, answer_to=traced, killers=(), holds=1, imported_bytes=0, card=None, asks_place=False):
        self.asks_place = asks_place
        self.answer_to, self.killers, self.holds = answer_to, killers, holds
        self.imported_bytes, self.card = imported_bytes, card
        self.workers, self.open_at_once = [], 0

    def __call__(self, order):
        worker = _Worker(self, order)
        self.workers.append(worker)
        self.open_at_once = max(self.open_at_once, sum(not one.is_closed for one in self.workers))
        return worker

    @property
    def sent(self):
        """The tests that each worker was sent, with their ranks."""
        return [[(request.key, request.rank) for request in worker.sent] for worker in self.workers]

    @property
    def files(self):
        """The files that workers were started for."""
        return [list(worker.order.files) for worker in self.workers]


class _Worker:
    def __init__(self, script, order):
        self.script, self.order = script, order
        self.imported_bytes, self.card, self.marked = script.imported_bytes, script.card, {}
        self.asks_place, self.scratch = script.asks_place and not order.world_size, ""
        self.pending, self.sent = {}, []
        self.is_closed = False

    def wait_until_ready(self):
        pass

    def has_room(self):
        return len(self.pending) < self.script.holds

    def send(self, request):
        self.pending[len(self.sent)] = request
        self.sent.append(request)

    def receive(self, awaited):
        if any(pending.key in self.script.killers for pending in self.pending.values()):
            raise WorkerFailure("it is lost")
        number, request = next(iter(self.pending.items()))
        answer = self.script.answer_to(request)
        if isinstance(answer, Exception):
            raise answer
        del self.pending[number]
        return request, answer

    def close(self):
        self.is_closed = True
