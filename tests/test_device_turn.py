"""Processes that measure on one GPU take turns; one that dies leaves its turn to the next."""

import subprocess
import sys
import time

from pytest_membudget.device_turn import device_turn

HOLDER = """
import sys, time
from pytest_membudget.device_turn import device_turn
with device_turn({"CUDA_VISIBLE_DEVICES": sys.argv[1]}):
    print("mine", flush=True)
    time.sleep(60)
"""


def holder(device):
    process = subprocess.Popen([sys.executable, "-c", HOLDER, device], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "mine\n"
    return process


def test_a_device_is_one_processs_until_that_ends():
    first = holder("77")
    second = subprocess.Popen([sys.executable, "-c", HOLDER, "77"], stdout=subprocess.PIPE, text=True)
    time.sleep(1)
    assert second.poll() is None

    first.kill()  # its turn ends with it
    said = second.stdout.readline()
    second.kill()
    for process in (first, second):
        process.communicate()

    assert said == "mine\n"


def test_another_device_is_free_meanwhile():
    other = holder("78")
    began = time.monotonic()

    with device_turn({"CUDA_VISIBLE_DEVICES": "79,78"}):
        waited = time.monotonic() - began
    other.kill()
    other.communicate()

    assert waited < 10
