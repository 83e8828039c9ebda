"""Out of memory, and a hang inside of torch: the innermost line of the user's code."""

import re

from pytest_membudget.hardware.gpus import find_gpu

LIMIT = 3
FILES = {
    "pyproject.toml": f"[tool.membudget]\ntimeout = {LIMIT}\nadvice = 'off'\n",
    "layers.py": """
        import torch

        class Block(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.up = torch.nn.Linear(1024, 4096)

            def forward(self, x):
                y = torch.nn.functional.gelu(self.up(x))
                return torch.nn.functional.softmax(y, -1)[..., :1024]

        class Slow(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()

            @staticmethod
            def backward(ctx, g):
                return torch.utils._pytree.tree_map(spin, g)

        def spin(g):
            while True:
                torch.nn.functional.gelu(g)
        """,
    "test_bodies.py": """
        import pytest
        import torch
        from layers import Block, Slow

        @pytest.mark.mem_budget(gpu="T4")
        def test_activations():
            model = torch.nn.Sequential(*[Block() for _ in range(24)]).cuda()
            model(torch.randn(64, 1024, 1024, device="cuda")).sum().backward()

        @pytest.mark.mem_budget(gpu="T4")
        def test_one_tensor():
            torch.empty(20 * 2**30, dtype=torch.uint8, device="cuda")

        @pytest.mark.mem_budget(gpu="T4")
        def test_catches_one_and_ends_by_another():
            kept = torch.empty(2**30, dtype=torch.uint8, device="cuda")
            with pytest.raises(torch.OutOfMemoryError):
                torch.empty(20 * 2**30, dtype=torch.uint8, device="cuda")
            torch.empty(20 * 2**30, dtype=torch.uint8, device="cuda")

        @pytest.mark.mem_budget(gib=1)
        def test_hangs_in_backward():
            x = torch.randn(8, 8, device="cuda", requires_grad=True)
            Slow.apply(x).sum().backward()
        """,
}


def line_of(run, file, statement):
    lines = (run.folder / file).read_text().splitlines()
    return next(number for number, text in enumerate(lines, 1) if statement in text)


def first_line(run, name):
    return run.text(name).splitlines()[0]


def test_the_innermost_line_of_the_users_code_is_named(run):
    line = line_of(run, "layers.py", "y = torch.nn.functional.gelu")
    softmax = line_of(run, "layers.py", "return torch.nn.functional.softmax")

    first = first_line(run, "test_activations")

    assert first.endswith((f", at layers.py:{line}", f", at layers.py:{softmax}"))
    assert "Tried to allocate" in first
    assert " free" in first
    assert "expandable_segments" not in first
    call = line_of(run, "test_bodies.py", "model(torch.randn(64")
    assert f"  test_bodies.py:{call} in test_activations\n" in run.text("test_activations")


def test_what_a_single_tensor_asks_for_is_named_in_pytorchs_words(run):
    line = line_of(run, "test_bodies.py", "torch.empty(20")
    total = f"{find_gpu('T4').total_bytes / 2**30:.2f} GiB"

    first = first_line(run, "test_one_tensor")

    assert first.startswith("does not fit on T4: ")
    assert f"CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of {total}" in first
    assert first.endswith(f", at test_bodies.py:{line}")
    assert run.rows["test_one_tensor"]["verdict"] == "over"


def test_a_test_that_was_ended_by_it_did_not_go_on(run):
    assert "after which the test went on" not in run.text("test_activations")
    caught = run.text("test_catches_one_and_ends_by_another")
    assert "out of memory (once), after which the test went on" in caught
    # what was alive
    assert re.search(r"^  1\.00 GiB  inputs\n      test_bodies\.py:\d+ ", caught, re.MULTILINE)


def test_a_hang_inside_of_torch_names_the_users_line(run):
    call = line_of(run, "test_bodies.py", "Slow.apply(x)")
    inner = line_of(run, "layers.py", "torch.nn.functional.gelu(g)")
    first = first_line(run, "test_hangs_in_backward")

    # autograd runs backward in a thread of its own where there is a card, which waits in the test
    assert any(
        f", at {place} (" in first
        for place in (
            f"layers.py:{inner} in spin",
            f"layers.py:{inner - 1} in spin",
            f"test_bodies.py:{call} in test_hangs_in_backward",
        )
    ), first
    assert "/torch/" not in run.text("test_hangs_in_backward")
