"""Families of published figures whose every estimate is what was measured, to 0.1%.

Of the two families that take longest some cases run here: attention at its largest size, the smallest and the
largest model with adapters. ``tox -e accuracy`` runs all.
"""

import re

import pytest

from benchmarks import accuracy
from pytest_membudget.devices.torch_parts import torch_release

pytestmark = pytest.mark.slow

LINE = re.compile(r"(\d+) figures: median ratio (\S+), worst (\S+); under (\d+)%, equal (\d+)%, over (\d+)%")


@pytest.mark.parametrize(
    ("family", "cases", "figures"),
    [
        ("attention", ["wed-attn-*-s16384-*"], 4),
        ("operators", [], 30),
        ("loss_heads", [], 23),
        ("lora", ["*-phi-1.5-nf4-dq-mb1", "*-Llama_2_13B-none-mb1"], 2),
    ],
)
@pytest.mark.usefixtures("warm_processes")
def test_the_estimates_are_what_was_measured(family, cases, figures, tmp_path, monkeypatch, capsys):
    pytest.importorskip("transformers")
    if torch_release() >= (2, 15):
        pytest.skip("measured with releases that keep cuBLAS's workspaces: torch 2.15 frees them at once")
    monkeypatch.chdir(tmp_path)

    status = accuracy.main(["--family", family, *(f"--case={case}" for case in cases)])

    said = capsys.readouterr()
    assert status == 0, said.out[-3000:] + said.err[-1000:]
    found = LINE.search(said.out)
    assert int(found[1]) == figures
    assert found[5] == "100", said.out[-3000:]
