"""What the next copies from a card to the host are answered (``native/answers.c``)."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

import torch


class Answers:
    """Counts that ATen's own code copies to the host: its kernels have written none."""

    def __init__(self) -> None:
        own = ctypes.CDLL(None)
        self._answer = own.stand_in_answer_copy
        self._answer.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
        self._drop = own.stand_in_drop_answers
        self._waiting = own.stand_in_answers_waiting
        self._expect = own.stand_in_expect_copies
        #: of copies that were given none, and were not expected either (``value``)
        self.missed = ctypes.c_ulonglong.in_dll(own, "stand_in_unanswered_copies")
        self._wait = own.stand_in_host_waits
        self._wait.argtypes = [ctypes.c_void_p]

    def give(self, answer: bytes) -> None:
        """A later copy of at most as many bytes in this thread gives the first of ``answer``."""
        if self._answer(answer, len(answer)) != 0:
            raise RuntimeError("the stand-in takes no more answers")

    def wait_for(self, tensor: torch.Tensor) -> None:
        """What lies in ``tensor`` is read: whoever reads waits for the current stream."""
        self._wait(torch._C._cuda_getCurrentRawStream(tensor.device.index))

    def are_waiting(self) -> bool:
        """Whether a later copy in this thread is given an answer."""
        return bool(self._waiting())

    def drop(self) -> int:
        """Answers that nobody asked for are given no more; how many they were."""
        return int(self._drop())

    @contextmanager
    def expected(self) -> Iterator[None]:
        """Copies of this thread are made by who knows that kernels have written nothing."""
        self._expect(1)
        try:
            yield
        finally:
            self._expect(-1)
