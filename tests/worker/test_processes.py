"""A process of ours is started as the session's own was."""

from tests.programs import printed

ASKED = "from pytest_membudget.worker.processes import interpreter_options as o; print(*o())"


def test_options_of_python_are_passed_on():
    told = ["-O", "-W", "error::UserWarning", "-X", "utf8", "-B"]

    assert set(printed(*told, "-c", ASKED).split()) >= {"-O", "-Werror::UserWarning", "utf8", "-B"}
