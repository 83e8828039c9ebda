"""Whole sessions by the clock, beside pytest alone and beside the same bodies as bare processes.

What a user waits for: imports and collection are in it. A bare process has the stand-in, and nothing follows
it. A first run of each kind, which compiles Python's code and the stand-in, is not counted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from benchmarks.speed_cases import Figure, clock_seconds, in_turn, pair, project
from pytest_membudget.devices.choice import find_stand_in
from pytest_membudget.devices.stand_in.environment import stand_in_environment
from pytest_membudget.hardware.gpus import find_gpu

#: Eight linear layers, AdamW, two steps; as many sizes as wanted.
_SMALL = """
import torch


def step(number):
    width = 1024 + 64 * number
    model = torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(8)]).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        model(torch.randn(64, width, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
"""
_SIZES = 20
#: Of AdamW, on 2,048 tokens.
_TWO_STEPS = """\
    optimizer = torch.optim.AdamW(model.parameters())
    tokens = torch.randint(0, config.vocab_size, (1, 2048), device="cuda")
    for _ in range(2):
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""
#: As Meta has published the model; bfloat16, and two steps of AdamW.
_LLAMA_8B = (
    """
import torch
from transformers import LlamaConfig, LlamaForCausalLM


def step(number):
    config = LlamaConfig(
        vocab_size=128256, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32,
        num_attention_heads=32, num_key_value_heads=8, use_cache=False, dtype=torch.bfloat16,
    )
    with torch.device("cuda"):
        torch.set_default_dtype(torch.bfloat16)
        model = LlamaForCausalLM(config)
"""
    + _TWO_STEPS
)
#: The same with 80 layers of 8,192 numbers, whose parameters are sharded over the ranks there are.
_LLAMA_70B = (
    """
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from transformers import LlamaConfig, LlamaForCausalLM


def step(number):
    if not dist.is_initialized():
        from torch.testing._internal.distributed.fake_pg import FakeStore

        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=64)
    config = LlamaConfig(
        vocab_size=128256, hidden_size=8192, intermediate_size=28672, num_hidden_layers=80,
        num_attention_heads=64, num_key_value_heads=8, use_cache=False,
    )
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    for layer in model.model.layers:
        fully_shard(layer)
    fully_shard(model)
    model.to_empty(device="cuda")
"""
    + _TWO_STEPS
)
_TEST = """

import pytest


@pytest.mark.mem_budget({mark})
@pytest.mark.parametrize("number", range({count}))
def test_step(number):
    step(number)
"""
_PLAIN = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "nothing_of_it")
_GATE = (*_PLAIN[:-2], "--membudget", "--membudget-cache=off")
_NONE_SELECTED = 5


def small_sessions(rounds: int) -> Iterator[Figure]:
    """What a session takes beyond pytest alone, and each further test beyond its body."""
    with project({"test_small.py": _SMALL + _TEST.format(mark="gib=40", count=_SIZES)}) as (
        folder,
        variables,
    ):
        run = partial(_session, folder, variables)
        bare = partial(_bare, _SMALL, folder, variables)
        run(*_GATE, "-k", "[0]", "-n2")
        medians = in_turn(
            rounds,
            {
                "alone": lambda: run(*_PLAIN, status=_NONE_SELECTED),
                "none": lambda: run(*_GATE, "-k", "nothing_of_it", status=_NONE_SELECTED),
                "one": lambda: run(*_GATE, "-k", "[0]"),
                "twenty": lambda: run(*_GATE),
                "alone by two": lambda: run(*_PLAIN, "-n2", status=_NONE_SELECTED),
                "one by two": lambda: run(*_GATE, "-k", "[0]", "-n2"),
                "bare one": lambda: bare(1),
                "bare twenty": lambda: bare(_SIZES),
            },
        )
    for what, one, alone, most in (
        ("a session in which nothing is selected", "none", "alone", 1.0),
        ("a session of one small test", "one", "alone", 4.0),
        ("the same with `-n2`", "one by two", "alone by two", 4.0),
    ):
        how = f"by the clock: {pair(medians, one, alone)}"
        yield Figure(f"{what}, beyond pytest alone", medians[one] - medians[alone], most, how, "s")
    each = (medians["twenty"] - medians["one"]) / (_SIZES - 1)
    body = (medians["bare twenty"] - medians["bare one"]) / (_SIZES - 1)
    how = f"of {_SIZES}, by the clock: {each:.2f} s, and {body:.2f} s of a bare process"
    yield Figure("each further small test, beyond its body", each - body, 0.1, how, "s")


def large_sessions(rounds: int) -> Iterator[Figure]:
    """A large model's step as a test, with the report that CI jobs write, of the bare process."""
    for what, text, mark in (
        ("Llama 3 8B as a test with `--membudget-report` / as a bare process", _LLAMA_8B, "gib=1000"),
        ("Llama 3 70B over 64 ranks, FSDP2, as a test / the bare rank", _LLAMA_70B, "gib=1000, gpus=64"),
    ):
        with project({"test_large.py": text + _TEST.format(mark=mark, count=1)}) as (folder, variables):
            gate = partial(_session, folder, variables, *_GATE, f"--membudget-report={folder}/report")
            bare = partial(_bare, text, folder, variables, 1)
            bare()
            gate()
            medians = in_turn(rounds, {"gate": gate, "bare": bare})
        how = f"whole processes, by the clock: {pair(medians, 'gate', 'bare')}"
        yield Figure(what, medians["gate"] / medians["bare"], 1.6, how)


def _session(folder: str, variables: Mapping[str, str], *command: str, status: int = 0) -> float:
    return clock_seconds(command, folder, variables, status)


def _bare(text: str, folder: str, variables: Mapping[str, str], count: int) -> float:
    """A process of its own on the stand-in that runs ``count`` steps."""
    stand_in = find_stand_in()
    environment = stand_in_environment(
        stand_in.libraries, stand_in.torch, find_gpu("H100-80GB"), 1, variables, unlimited=True
    )
    file = Path(folder, "bare.py")
    file.write_text(f"{text}\nfor number in range({count}):\n    step(number)\n", encoding="utf-8")
    return clock_seconds([sys.executable, str(file)], folder, environment)


#: Each yields rows of the page.
SESSIONS: tuple[Callable[[int], Iterator[Figure]], ...] = (small_sessions, large_sessions)
