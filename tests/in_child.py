"""What a function finds in a child process that may crash or hang, in JSON types."""

from pytest_membudget.results.answer import TRACED, Answer
from pytest_membudget.worker.server.child_process import run_in_child


def found_in_child(body, timeout):
    """The dictionary that ``body`` returns; if it came to no end, ``outcome`` and why."""
    answer = run_in_child(lambda: Answer(TRACED, properties=tuple(body().items())), timeout)
    if answer.outcome == TRACED:
        return dict(answer.properties)
    return {"outcome": answer.outcome, "reason": answer.reason, "details": answer.details}
