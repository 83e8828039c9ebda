"""The errors of this package; all are user-facing and say what to write instead."""


class MembudgetError(Exception):
    """Base class of the errors of this package."""


class UsageMistake(MembudgetError):  # noqa: N818 (its public name)
    """A value cannot be used as it is written; the message says where, and what to write instead."""


class NotAvailable(MembudgetError):  # noqa: N818 (its public name)
    """The value is valid, but what it asks for is not part of this release."""


class UnsupportedTorch(MembudgetError):  # noqa: N818 (its public name)
    """This torch lacks something that estimates rest on, so no figure can be trusted."""


class WorkerFailure(MembudgetError):  # noqa: N818 (its public name)
    """A worker process gave no estimate: it crashed, hung, or could not be started.

    ``collecting``: the session had been started, and its test files were being imported.
    """

    def __init__(self, reason: str, *, collecting: bool = False) -> None:
        super().__init__(reason)
        self.collecting = collecting
