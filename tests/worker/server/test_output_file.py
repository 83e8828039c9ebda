"""What a test prints is kept in a file that does not grow without an end, and its last lines are told."""

import os

import pytest

from pytest_membudget.worker.server.child_process import OutputFile


@pytest.fixture
def output():
    made = OutputFile()
    yield made
    made.close()


def print_into(output, text):
    """Print from a process of its own, as a test does."""
    pid = os.fork()
    if pid == 0:
        output.take_over()
        os.write(1, text)
        os.write(2, b"and an error\n")
        os._exit(0)
    os.waitpid(pid, 0)


@pytest.mark.parametrize(
    ("printed", "kept"),
    [
        (b"a line\n", "a line\nand an error"),
        (b'  File "/env/site-packages/_pytest/runner.py", line 3 in call\n', "and an error"),
    ],
    ids=["both streams", "frames of pytest"],
)
def test_both_streams_are_kept_in_their_order_without_frames_of_pytest(output, printed, kept):
    print_into(output, printed)

    output.cut()  # which leaves a small file as it is

    assert output.last_lines() == kept


def test_nothing_printed_is_nothing_reported(output):

    assert output.last_lines() == ""


def test_of_much_output_the_last_is_reported(output):

    print_into(output, b"".join(b"%d %s\n" % (number, b"x" * 300) for number in range(50)))

    lines = output.last_lines().splitlines()
    assert len(lines) == 12
    assert lines[-1] == "and an error"
    assert lines[-2] == f"49 {'x' * 300}"[:200]


def test_a_large_file_is_cut_and_goes_on_at_its_end(output):
    size_bytes = 65 * 2**20
    print_into(output, b"x" * size_bytes + b"\nlast of many\n")
    output.cut()

    left_bytes = os.fstat(output.file.fileno()).st_size
    print_into(output, b"after the cut\n")

    assert left_bytes == 8000
    assert os.fstat(output.file.fileno()).st_size == 8000 + len(b"after the cut\nand an error\n")
    last = ["last of many", "and an error", "after the cut", "and an error"]
    assert output.last_lines().splitlines()[-4:] == last


def test_what_was_printed_before_the_test_is_not_reported(output):
    print_into(output, b"the session's\n")

    end = os.fstat(output.file.fileno()).st_size
    print_into(output, b"the test's\n")
    output.forget(end)  # who is told of the end may be late

    assert output.last_lines() == "the test's\nand an error"
