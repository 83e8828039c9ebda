"""Copies of rectangles, which nothing in PyTorch makes today, are as those of rows."""

import pytest


def copied(function, *stream):
    """Two rows of four bytes, of a card's memory whose rows begin every 16, into rows that begin every 8."""
    import ctypes

    cuda = ctypes.CDLL(None)
    on_card, size = ctypes.c_void_p(), ctypes.c_size_t
    cuda.cudaMalloc(ctypes.byref(on_card), size(2**21))
    cuda.stand_in_answer_copy(b"answered", size(8))
    rows = []
    for _ in range(2):  # the answer, and then what lies there
        target = ctypes.create_string_buffer(b"." * 16, 16)
        to_host = [target, size(8), on_card, size(16), size(4), size(2), 2]
        assert getattr(cuda, function)(*to_host, *stream) == 0
        rows.append(target.raw.decode())
    return rows, cuda.stand_in_answers_waiting()


@pytest.mark.parametrize(("function", "stream"), [("cudaMemcpy2D", []), ("cudaMemcpy2DAsync", [None])])
def test_a_rectangle_gets_the_answer_that_waits(stand_in, function, stream):
    rows, waiting = stand_in(copied, function, *stream)

    assert rows == ["answ....ered....", "\0\0\0\0....\0\0\0\0...."]
    assert waiting == 0


def filled():
    import ctypes

    cuda = ctypes.CDLL(None)
    on_card, size = ctypes.c_void_p(), ctypes.c_size_t
    cuda.cudaMalloc(ctypes.byref(on_card), size(2**21))
    cuda.cudaMemset(on_card, ord("."), size(16))
    cuda.cudaMemset2D(on_card, size(8), ord("x"), size(3), size(2))
    return ctypes.string_at(on_card.value, 16).decode()


def test_a_rectangle_is_filled_row_by_row(stand_in):
    assert stand_in(filled) == "xxx.....xxx....."
