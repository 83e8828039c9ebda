"""The optimizers: bytes a parameter of a Llama 3.2 1B (1,235,814,400 parameters) in bfloat16.

Parameters and gradients 4; states: SGD 0, with momentum 2, AdamW 4 (in bfloat16), in eight bits 2, Adafactor
next to nothing. A foreach AdamW takes 2 more while it steps. Beside it: 256 tokens and their logits, and of
the for-loop and of Adafactor copies of one parameter, of which the embedding is the largest (0.49 GiB).
"""

import pytest

PARAMETERS = 1_235_814_400
GIB = 2**30
#: the logits of 256 tokens, 64 MiB, and what is made of them in float32; the embedding's copies; workspaces
BESIDE_GIB = 1.3

pytestmark = pytest.mark.filterwarnings("default")


def case(name, bytes_a_parameter):
    gib = round(PARAMETERS * bytes_a_parameter / GIB + BESIDE_GIB, 2)
    return pytest.param(name, marks=pytest.mark.mem_budget(gib=gib, gpu="H200"), id=name)


@pytest.mark.parametrize(
    "name",
    [
        case("sgd", 4),
        case("sgd-momentum", 6),
        case("adafactor", 4),
        case("adamw-foreach", 10),
        case("adamw-loop", 8),
        case("adamw-fused", 8),
        case("adamw-8-bit", 6),
    ],
)
def test_two_updates(name):
    import torch
    from gpu_models import batch, llama

    from pytest_membudget.steps import train_step

    model = llama("1b")
    optimizer = made(name, model.parameters(), torch)
    data = batch(1, 256)
    for _ in range(2):
        train_step(model, optimizer, data)


def made(name, parameters, torch):
    from benchmarks.cases.models.low_bit_adam import BNB_8BIT, LowBitAdamW

    makers = {
        "sgd": lambda: torch.optim.SGD(parameters, lr=1e-3),
        "sgd-momentum": lambda: torch.optim.SGD(parameters, lr=1e-3, momentum=0.9),
        "adafactor": lambda: torch.optim.Adafactor(parameters),
        "adamw-foreach": lambda: torch.optim.AdamW(parameters),
        "adamw-loop": lambda: torch.optim.AdamW(parameters, foreach=False),
        "adamw-fused": lambda: torch.optim.AdamW(parameters, fused=True),
        "adamw-8-bit": lambda: LowBitAdamW(parameters, BNB_8BIT),
    }
    return makers[name]()
