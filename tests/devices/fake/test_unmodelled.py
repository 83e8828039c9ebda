"""What a run did that is not modelled: each operator, how often, where, and how much it hides at most."""

import re
from pathlib import Path

import pytest
import torch
from kernel_calls import A100, H100, meta
from torch import nn

from pytest_membudget.devices.fake.attention_temporaries import ATTENTION_KERNELS
from pytest_membudget.devices.fake.kernel_bounds import BOUNDS
from pytest_membudget.devices.fake.kernel_convolutions import CONVOLUTION_BOUNDS
from pytest_membudget.devices.fake.kernel_temporaries import KERNELS

aten = torch.ops.aten
DOCUMENT = Path(__file__).parents[3] / "docs" / "how-it-works.md"
HERE = Path(__file__).name


def line_of(text):
    """The number of the first line of this file that is ``text``."""
    return [line.strip() for line in Path(__file__).read_text().splitlines()].index(text) + 1


def training_step():
    model = nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.GELU(), nn.Linear(64, 10)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        scores = model(torch.randn(32, 64, device="cuda"))
        nn.functional.cross_entropy(scores, torch.zeros(32, dtype=torch.long, device="cuda")).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    scores.topk(5)


def test_a_run_of_known_operators_has_nothing_to_list(trace):
    assert trace(training_step).report.not_modelled == ()


def scans():
    for count in (1000, 100_000, 10):
        torch.ones(count, device="cuda").cumsum(0)
    torch.ones(8, 1000, device="cuda").cumsum(1)


def test_an_operator_is_listed_with_its_count_its_largest_place_and_bound(trace):
    """One row of 100,000 is scanned by CUB: 32 + 391 states of 16 bytes, in 256s, and 1 KiB; rows are not."""
    line = line_of('torch.ones(count, device="cuda").cumsum(0)')

    assert -(-423 * 16 // 256) * 256 + 1024 == 7936
    assert trace(scans).report.not_modelled == (
        f"aten::cumsum, 3 times (largest at {HERE}:{line}): the storage of CUB's scan is not counted, "
        "at most 7.8 KiB",
    )


def solver():
    torch.linalg.qr(torch.randn(64, 64, device="cuda"))


def test_an_operator_without_a_bound_says_so(trace):
    line = line_of('torch.linalg.qr(torch.randn(64, 64, device="cuda"))')

    assert trace(solver).report.not_modelled == (
        f"aten::linalg_qr, once ({HERE}:{line}): the solver's workspace and its copies are not counted, "
        "no bound is known",
    )


def on_the_host():
    torch.linalg.qr(torch.randn(64, 64))
    torch.ones(1000).cumsum(0)


def test_what_runs_on_the_host_is_not_listed(trace):
    assert trace(on_the_host).report.not_modelled == ()


def extension():
    library = torch.library.Library("membudget_tests", "FRAGMENT")  # as C++ defines it, with a fake kernel
    library.define("scaled(Tensor x) -> Tensor")
    torch.library.register_fake("membudget_tests::scaled", torch.empty_like, lib=library)
    scaled = torch.ops.membudget_tests.scaled

    scaled(torch.ones(8, device="cuda"))
    scaled(torch.ones(8))


def test_an_extensions_operator_on_the_device_is_listed(trace):
    line = line_of('scaled(torch.ones(8, device="cuda"))')

    assert trace(extension).report.not_modelled == (
        f"membudget_tests::scaled, once ({HERE}:{line}): "
        "what an extension's kernel allocates inside is not seen, "
        "no bound is known",
    )


def sums():
    torch.ones(8, device="cuda").sum()


def test_on_rocm_no_kernels_own_memory_is_known(trace):
    assert trace(sums, gpu="MI300X").report.not_modelled == (
        "ROCm: what its kernels take for themselves is not known and not counted (aten::sum)",
    )


def at_most(func, *args, result=None, gpu=A100):
    return BOUNDS[func].bound(args, {}, result, gpu)


def test_assigning_at_a_mask_makes_its_places():
    """Up to 100 places in one dimension, a count, and CUB: 33 states of 16 bytes and 2 KiB."""
    tensor, mask = meta(100, 8), meta(100, dtype=torch.bool)

    assert at_most(aten.index_put_.default, tensor, [mask], meta(8)) == 800 + 512 + 33 * 16 + 2048


def test_filling_at_a_mask_makes_nothing():
    tensor, mask = meta(100, 8), meta(100, dtype=torch.bool)

    assert at_most(aten.index_put_.default, tensor, [mask], meta()) == 0
    assert at_most(aten.index_put_.default, tensor, [meta(100, dtype=torch.int64)], meta(8)) == 0


def test_sorting_narrow_keys_has_a_bound_before_hopper():
    long = meta(100_000, dtype=torch.bfloat16)

    assert at_most(aten.sort.default, long) == 5 * 16 * 108 * 256 * 8
    assert at_most(aten.sort.default, long, gpu=H100) == 0
    assert at_most(aten.sort.default, meta(100_000)) == 0


def test_a_convolutions_bound_is_the_sum_of_its_parts():
    tensor, weight = meta(8, 64, 56, 56), meta(64, 64, 3, 3)
    arguments = (tensor, weight, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    parts = CONVOLUTION_BOUNDS[aten.convolution.default](arguments, {}, tensor, A100)

    assert at_most(aten.convolution.default, *arguments, result=tensor) == sum(parts)


WITH_RULES = (*KERNELS, *ATTENTION_KERNELS, *BOUNDS)
OPERATORS = {str(operator).removeprefix("aten.").rpartition(".")[0] for operator in WITH_RULES}


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_every_operator_with_a_rule_is_documented(name):
    assert re.search(rf"`{re.escape(name)}`", DOCUMENT.read_text(encoding="utf-8")), name


def test_the_document_names_no_operator_without_a_rule():
    rows = [line for line in DOCUMENT.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`([a-z_0-9]+)`", row.split("|")[1])}
    known = {
        str(one).removeprefix("aten.").rpartition(".")[0] for one in (*KERNELS, *ATTENTION_KERNELS, *BOUNDS)
    }

    assert named <= known | {"_grouped_mm", "_scaled_grouped_mm", "_cudnn_attention_backward"}
