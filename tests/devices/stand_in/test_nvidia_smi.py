"""nvidia-smi of cards that are not there."""

import os
import subprocess

import pytest

from pytest_membudget.devices.stand_in.environment import CARDS_VARIABLE, CUDA_VARIABLE, cards_text
from pytest_membudget.devices.stand_in.nvidia_smi import FIELDS, FOLDER, NAME, is_answered
from pytest_membudget.hardware.gpus import find_gpu

VARIABLES = {CARDS_VARIABLE: cards_text(find_gpu("H100-80GB"), 2), CUDA_VARIABLE: "13020"}
H100 = "NVIDIA H100 80GB HBM3"


def ask(*arguments):
    environment = {**VARIABLES, "PATH": f"{FOLDER}:{os.environ['PATH']}"}
    return subprocess.run([NAME, *arguments], env=environment, capture_output=True, text=True, check=False)


def test_its_table_names_each_card_and_the_release_of_cuda():
    head, *rows = ask().stdout.splitlines()

    assert "CUDA Version: 13.2 " in head
    assert [row.strip("| ") for row in rows] == [f"0  {H100}", f"1  {H100}"]
    assert not is_answered([]), "a card's has its memory too"


def test_its_list_has_the_identities_that_nvml_has():
    identity = "GPU-5d5d5d5d-5d5d-5d5d-5d5d-5d5d5d5d5d"

    assert ask("-L").stdout.splitlines() == [
        f"GPU 0: {H100} (UUID: {identity}00)",
        f"GPU 1: {H100} (UUID: {identity}01)",
    ]
    assert is_answered(["-L"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--query-gpu=name", "--format=csv,noheader"], f"{H100}\n{H100}\n"),
        (["--query-gpu=index,compute_cap", "--format=csv"], "index, compute_cap\n0, 9.0\n1, 9.0\n"),
        (["--query-gpu=count,gpu_name", "--format=csv,noheader,nounits"], f"2, {H100}\n2, {H100}\n"),
    ],
)
def test_what_is_known_of_cards_can_be_queried(arguments, said):
    assert ask(*arguments).stdout == said
    assert is_answered(arguments)


@pytest.mark.parametrize(
    "arguments", [["topo", "-m"], ["-Lq"], ["--query-gpu=name,memory.used", "--format=csv"]]
)
def test_what_is_not_known_is_no_answer(arguments):
    done = ask(*arguments)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("the stand-in's nvidia-smi does not know ")
    assert not is_answered(arguments)


def test_it_answers_all_fields_that_count_as_answered():
    assert ask(f"--query-gpu={','.join(sorted(FIELDS))}").returncode == 0
