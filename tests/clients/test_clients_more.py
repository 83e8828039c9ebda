"""What the gate says of ``clients/``: Lightning, torchtune, bitsandbytes, torchao, Liger, Triton, flex.

One run of their files through the gate; the components are held to hand arithmetic. Runs where the libraries
are installed: the tox environment ``clients-more``.
"""

import importlib.metadata
import math

import pytest

from tests.clients.conftest import Figures

NEEDED = ("lightning", "torchtune", "bitsandbytes", "torchao", "liger_kernel", "triton", "transformers")
FILES = ("lightning", "torchtune", "bitsandbytes", "torchao", "liger", "triton", "flex_attention")

KIB, MIB = 2**10, 2**20
#: Two linear layers of 1,024 by 4,096, and their biases.
WEIGHTS, BIASES = 2 * 1024 * 4096, 4096 + 1024


@pytest.fixture(scope="module")
def figures(rows_of):
    """``figures("test_liger.py::test_layers")`` of one run of all files."""
    by_name = {row["nodeid"].removeprefix("clients/"): row for row in rows_of(*FILES)}
    return lambda name: Figures(by_name[name])


def test_lightning_is_the_plain_loop(figures):
    """Besides it keeps seven scalars on the device for ``self.log``, each a block of 512 bytes.

    The loss by hand has the storage of all that it is the mean of (``mse_loss`` resizes its result:
    ATen/native/Loss.cpp, 2.13); Lightning has a clone.
    """
    by_hand = figures("test_lightning.py::test_the_same_by_hand")
    trainer = figures("test_lightning.py::test_trainer_in_bf16_mixed_with_accumulation")

    for component in ("parameters", "gradients", "optimizer_states", "workspaces"):
        assert getattr(trainer, component) == getattr(by_hand, component)
    assert by_hand.parameters == by_hand.gradients == 4 * (WEIGHTS + BIASES)
    assert by_hand.optimizer_states == 2 * by_hand.parameters  # four steps' counts are on the host
    assert trainer.allocated - by_hand.allocated == 7 * 512 - 4 * 16 * 1024


def test_lightning_s_step_in_backward_holds_one_gradient(figures):
    stepping = figures("test_lightning.py::test_the_step_in_backward")

    assert stepping.gradients == 4 * WEIGHTS // 2  # of the layer whose step runs
    assert stepping.optimizer_states == 2 * 4 * (WEIGHTS + BIASES)


#: Elements of torchtune's small Llama: embeddings and output, layers' linears, norms.
TABLES = 2 * 8192 * 512
LINEARS = 2 * (2 * 512 * 512 + 2 * 512 * 256 + 3 * 512 * 1536)
NORMS = 5 * 512
TUNED = 2 * (TABLES + LINEARS + NORMS)  # bf16


def test_torchtune_s_full_fine_tuning(figures):
    run = figures("test_torchtune.py::test_full_fine_tuning")

    assert run.parameters == TUNED
    assert run.optimizer_states == 2 * TUNED + 4 * (2 * 9 + 3)  # a fused step's count for each parameter
    logits = 2 * 256 * 8192 * 4
    assert run.activations < logits  # in chunks: never all of them in float32


def test_torchtune_s_step_in_backward_leaves_no_gradients(figures):
    run = figures("test_torchtune.py::test_the_step_in_backward")

    assert (run.parameters, run.optimizer_states, run.gradients) == (TUNED, 2 * TUNED, 0)


def test_torchtune_s_offloading_takes_the_layers_inputs_away(figures):
    kept = figures("test_torchtune.py::test_activation_offloading[False]")
    offloaded = figures("test_torchtune.py::test_activation_offloading[True]")

    hidden = 2 * 256 * 512 * 2
    assert kept.allocated - offloaded.allocated == 2 * hidden
    assert kept.host == {}
    assert offloaded.host["activations"] >= 2 * hidden


def test_torchtune_s_adapters(figures):
    """Rank 8 at q, v and the three linears of each MLP."""
    lora = figures("test_torchtune.py::test_adapters[lora]")

    attention = 8 * (512 + 512) + 8 * (512 + 256)
    assert lora.parameters == 2 * 2 * (attention + 3 * 8 * (512 + 1536))
    assert lora.frozen_parameters == TUNED
    assert lora.optimizer_states == 2 * lora.parameters + 4 * 2 * 5 * 2


def test_torchtune_s_nf4_base(figures):
    """Four bits each; for 64 of them 8 bits, for 256 of those a bf16, and per weight a mean and 16 values.

    torchao 0.15, dtypes/nf4tensor.py; 14 weights.
    """
    qlora = figures("test_torchtune.py::test_adapters[qlora]")

    nf4 = LINEARS // 2 + LINEARS // 64 + 2 * LINEARS // (64 * 256) + 14 * (2 + 16 * 2)
    assert qlora.frozen_parameters == 2 * (TABLES + NORMS) + nf4


#: bitsandbytes 0.50.2, optim/optimizer.py: blocks of 256 have a float32; below 4,096 elements states have 32
#: bits. The bias of 4,096 is quantised, that of 1,024 is not.
QUANTISED = WEIGHTS + 4096
STATE_8BIT = QUANTISED + 4 * QUANTISED // 256 + 4 * 1024
QMAP = 4 * 256  # of one sign, shared by all


@pytest.mark.parametrize(
    ("name", "states_bytes"),
    [
        ("AdamW", 2 * 4 * (WEIGHTS + BIASES)),
        ("AdamW8bit", 2 * STATE_8BIT + 2 * QMAP),
        ("Lion8bit", STATE_8BIT + QMAP),
        ("AdEMAMix8bit", 3 * STATE_8BIT + 2 * QMAP),
    ],
)
def test_bitsandbytes_states(figures, name, states_bytes):
    run = figures(f"test_bitsandbytes.py::test_optimizer[{name}]")

    assert run.optimizer_states == states_bytes
    assert run.parameters == run.gradients == 4 * (WEIGHTS + BIASES)
    assert run.not_modelled == []


def test_bitsandbytes_paged_states_are_the_hosts(figures):
    """States of 100,000 elements and more are managed memory (``get_state_buffer``); their scales are not."""
    eight = figures("test_bitsandbytes.py::test_paged_optimizer[PagedAdamW8bit]")
    full = figures("test_bitsandbytes.py::test_paged_optimizer[PagedAdamW32bit]")

    assert eight.optimizer_states == 2 * (STATE_8BIT - WEIGHTS) + 2 * QMAP
    assert full.optimizer_states == 2 * 4 * BIASES
    assert full.not_modelled == eight.not_modelled == ["cudaMallocManaged"]


def test_bitsandbytes_overrides(figures):
    """One weight's states in 32 bits, of the rest as above."""
    run = figures("test_bitsandbytes.py::test_an_override_of_single_parameters")

    half = WEIGHTS // 2
    eight = half + 4096
    assert run.optimizer_states == 2 * (4 * half + eight + 4 * eight // 256 + 4 * 1024) + 2 * QMAP


@pytest.mark.parametrize("tokens", [32, 2048])
def test_bitsandbytes_nf4_weights(figures, tokens):
    """Four bits each; a float32 for 64 of them, or 8 bits and for 256 of those a float32 (functional.py)."""
    single = figures(f"test_bitsandbytes.py::test_linear_4bit[nf4-{tokens}]")
    double = figures(f"test_bitsandbytes.py::test_linear_4bit[nf4-double-{tokens}]")

    values = 2 * 16 * 4  # of each layer's map
    blocks = WEIGHTS // 64
    assert single.frozen_parameters == WEIGHTS // 2 + 4 * blocks + values
    nested = 2 * (256 * 4 + 4)  # each layer's map of 8 bits, and the mean that was taken off
    assert double.frozen_parameters == WEIGHTS // 2 + blocks + 4 * blocks // 256 + values + nested


def test_bitsandbytes_nf4_weights_are_dequantised_for_many_tokens(figures):
    """Above 1,536 rows by a product of cuBLAS's with a bf16 copy (backends/cuda/ops.py), one at a time."""
    run = figures("test_bitsandbytes.py::test_linear_4bit[nf4-2048]")

    hidden = 2048 * 4096 * 2
    assert run.temporaries == 2 * hidden + 2 * WEIGHTS // 2  # with its gradient; one layer's copy


@pytest.mark.parametrize("threshold", [0.0, 6.0])
def test_bitsandbytes_8_bit_weights(figures, threshold):
    run = figures(f"test_bitsandbytes.py::test_linear_8bit[{threshold}]")

    assert run.frozen_parameters == WEIGHTS + 4 * BIASES  # a float32 for each row of a weight


def test_bitsandbytes_under_peft(figures):
    """QLoRA: NF4 linears with nested scales, tables and norms in float32, adapters of rank 8 at each linear.

    14 linears; the adapters' parts of 2,048 elements (k and v) have states in 32 bits, and none is paged.
    """
    run = figures("test_bitsandbytes.py::test_qlora")

    blocks = LINEARS // 64
    nf4 = LINEARS // 2 + blocks + 4 * blocks // 256 + 14 * (4 * 16 + 4 * 256 + 4)
    assert run.frozen_parameters == 4 * (TABLES + NORMS) + nf4
    small = 2 * 256 * 8
    adapters = 2 * 8 * (512 + 512) + 2 * 8 * (512 + 256) + 3 * 8 * (512 + 1536)
    assert run.parameters == 2 * 4 * adapters
    eight = adapters - small
    assert run.optimizer_states == 2 * 2 * (eight + 4 * eight // 256 + 4 * small) + 2 * QMAP


#: torchao 0.15, optim: a state of 4,096 elements and more is quantised where blocks of 256 (4 bits: 128) fit;
#: each has its own map (none for float8), and a float32 for each block. The bias of 1,024 is as its
#: parameter.
def _torchao_state(bits, block, map_bytes):
    return QUANTISED * bits // 8 + 4 * QUANTISED // block + 3 * map_bytes + 2 * 1024


@pytest.mark.parametrize(
    ("name", "states_bytes"),
    [
        ("AdamW8bit", 2 * _torchao_state(8, 256, 4 * 256)),
        ("AdamW4bit", 2 * _torchao_state(4, 128, 4 * 16)),
        ("AdamWFp8", 2 * _torchao_state(8, 256, 0)),
    ],
)
def test_torchao_states(figures, name, states_bytes):
    """At the peak inductor tunes the first parameter's step, and has made its states alone."""
    run = figures(f"test_torchao.py::test_optimizer[{name}]")

    (backward,) = [one["components"] for one in run.estimate["phases"] if one["phase"] == "backward"]
    assert backward["optimizer_states"] == states_bytes
    assert run.parameters == run.gradients == 2 * (WEIGHTS + BIASES)


def test_torchao_states_on_the_host(figures):
    """Parameters of 4,096 elements and more, in pinned copies with gradients and states (optim 0.15)."""
    run = figures("test_torchao.py::test_states_on_the_host")

    assert run.host["frozen_parameters"] == run.host["gradients"] == 2 * QUANTISED
    assert run.host["optimizer_states"] == 2 * 2 * QUANTISED + 3 * 4
    assert run.optimizer_states == 2 * 2 * 1024 + 4


@pytest.mark.parametrize(
    ("config", "row_bytes"),
    [
        ("Int8WeightOnlyConfig", 2 + 8),  # a bf16 scale, and a zero point of 64 bits
        ("Float8WeightOnlyConfig", 4),
    ],
)
def test_torchao_quantised_weights(figures, config, row_bytes):
    if not importlib.metadata.version("torchao").startswith("0.15"):
        pytest.skip("the scales' types are those of torchao 0.15")
    run = figures(f"test_torchao.py::test_quantised_for_inference[{config}]")

    assert run.frozen_parameters == WEIGHTS + row_bytes * BIASES


def test_torchao_integer_products_take_less_than_quantising_the_first_weight(figures):
    """``_int_mm`` makes no copy of its quantised inputs: the peak is before, with both weights in bf16."""
    if not importlib.metadata.version("torchao").startswith("0.15"):
        pytest.skip("the scales' types are those of torchao 0.15")
    run = figures("test_torchao.py::test_quantised_for_inference[Int8DynamicActivationInt8WeightConfig]")

    assert run.parameters == 2 * (WEIGHTS + BIASES)
    assert run.frozen_parameters == WEIGHTS // 2 + 2 * 4096  # a bf16 scale for each of its rows
    assert run.workspaces == 0


def test_torchao_float8_keeps_parameters_and_states_as_they_are(figures):
    run = figures("test_torchao.py::test_float8_training")

    assert run.parameters == 2 * (WEIGHTS + BIASES)
    assert run.optimizer_states == 2 * run.parameters + 4 * 4  # a fused step's counts


def test_liger_s_fused_linear_cross_entropy_works_in_chunks(figures):
    """liger_kernel 0.8.5, ops/fused_linear_cross_entropy.py: as many rows as hold no more than the input."""
    run = figures("test_liger.py::test_fused_linear_cross_entropy")

    tokens, hidden, vocabulary = 2048, 512, 32000
    rows = math.ceil(tokens / math.ceil(vocabulary / hidden))
    chunk = 2 ** math.ceil(math.log2(rows))
    assert chunk == 64
    losses, mask = 4 * tokens, tokens
    assert run.temporaries == 2 * chunk * vocabulary + losses + mask
    assert run.parameters == 2 * hidden * vocabulary
    assert run.gradients == run.parameters + 2 * tokens * hidden


def test_liger_s_llama_never_has_all_logits(figures):
    plain = figures("test_liger.py::test_llama[False]")
    patched = figures("test_liger.py::test_llama[True]")

    logits = 4 * 4 * 256 * 32000  # float32
    assert plain.temporaries == 2 * logits  # the gradients of the loss and of its log-softmax
    assert patched.temporaries + patched.activations < logits
    assert patched.parameters == plain.parameters
    assert patched.optimizer_states == plain.optimizer_states
    assert patched.assumptions == []


def test_triton_launches_take_nothing(figures):
    function = figures("test_triton.py::test_a_launch_in_an_autograd_function")
    operator = figures("test_triton.py::test_an_operator_made_of_kernels")

    tensor = 4 * MIB
    assert function.allocated == 4 * tensor + 2 * 512  # operands, sum and its gradient; two scalars
    assert operator.allocated == 4 * tensor  # operands, one doubled, the sum
    assert operator.not_modelled == []


def test_triton_s_autotuning_has_its_benchmarks_buffer(figures):
    """256 MiB (triton 3.9.0, backends/nvidia/driver.py: ``get_empty_cache_for_benchmark``)."""
    run = figures("test_triton.py::test_an_autotuned_kernel")

    assert run.allocated == 2 * 4 * MIB + 256 * MIB


#: An operand of flex attention: 2 sequences of 1,024 tokens, 8 heads of 64, in bf16.
OPERAND = 2 * 8 * 1024 * 64 * 2
STATISTICS = 2 * 8 * 1024 * 4


def test_compiled_flex_attention_has_no_scores(figures):
    """Operands, the result and its gradient made dense, two float32 for each query.

    The peak is where inductor tunes backward's kernel, with a buffer as large as the card's L2 cache
    (``benchmark_gpu``: torch/_inductor/runtime/benchmarking.py, 2.13), of an H100 50 MiB.
    """
    run = figures("test_flex_attention.py::test_compiled")

    held = 3 * OPERAND + 2 * OPERAND + 2 * STATISTICS + 50 * MIB
    assert 0 <= run.allocated - held <= 8 * KIB  # the mask's blocks
    assert run.assumptions == []


def test_uncompiled_flex_attention_has_six_and_a_half(figures):
    """By ``sdpa_dense_backward`` (torch/_higher_order_ops/flex_attention.py, 2.13), where its peak is.

    Six float32 matrices of scores (before and after the modification, the softmax, its gradient, the
    modification's, that times the scale) and half a one in bf16; key and value repeated, and value's
    gradient; the logsumexp, its gradient, the rows' sums; masked rows; four ranges of indices.
    """
    run = figures("test_flex_attention.py::test_uncompiled")

    scores = 2 * 8 * 1024 * 1024 * 4
    rows, indices = 2 * 8 * 1024, 8 * (2 + 8 + 2 * 1024)
    held = 6 * scores + scores // 2 + 3 * OPERAND + 3 * STATISTICS + rows + indices
    assert run.temporaries == held
