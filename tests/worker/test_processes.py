"""A process of ours is started as the session's own was."""

import subprocess
import sys

ASKED = "from pytest_membudget.worker.processes import interpreter_options as o; print(*o())"


def test_options_of_python_are_passed_on():
    told = ["-O", "-W", "error::UserWarning", "-X", "utf8", "-B"]

    done = subprocess.run([sys.executable, *told, "-c", ASKED], capture_output=True, text=True, check=True)

    assert set(done.stdout.split()) >= {"-O", "-Werror::UserWarning", "utf8", "-B"}
