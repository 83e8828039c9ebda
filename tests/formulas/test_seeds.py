"""The worked figures of the five texts that the project was asked to implement: each is reproduced here.

The texts mix GB (10^9 bytes) and GiB (2^30) up; here each figure has the unit that its arithmetic gives.
"""

import json
from dataclasses import replace

import pytest

from pytest_membudget.components import (
    ACTIVATIONS,
    FROZEN_PARAMETERS,
    GRADIENTS,
    OPTIMIZER_STATES,
    PARAMETERS,
    TEMPORARIES,
)
from pytest_membudget.formulas.decoder import parameter_count
from pytest_membudget.formulas.model_states import states_of
from pytest_membudget.formulas.peaks import figures_of
from pytest_membudget.formulas.ranks import Rank
from pytest_membudget.formulas.sources import decoder_of
from pytest_membudget.scenarios.job import (
    Adapter,
    Checkpointing,
    DataParallel,
    Degrees,
    Generation,
    Job,
    Model,
    Optimizer,
    Precision,
)
from pytest_membudget.units import GIB

GB = 10**9
FP32 = Precision("pure", "fp32")


def of_parameters(count, **more):
    """A decoder of about ``count`` parameters: a vocabulary of that many numbers, and one small layer."""
    rows = (count - 16) // 2
    shape = {"hidden": 1, "layers": 1, "heads": 1, "intermediate": 1, "vocab": rows}
    return Job(Model("shape", "a model", json.dumps(shape)), "formulas", sequence=1, **more)


def states(job):
    return states_of(Rank(job, decoder_of(job.model), 0))


def all_states(job):
    found = states(job)
    return found.parameters + found.gradients + found.optimizer


def llama3_8b(**more):
    return Job(Model("torchtitan", "8B", json.dumps("8B")), "formulas", **more)


# "Distilling Llama3.1 8B into 1B in torchtune"


def test_a_3b_student_and_a_14b_teacher_take_52_gb_which_are_48_4_gib():
    """3B x (2 + 2 + 4) + 14B x 2 bytes."""
    student, teacher = of_parameters(3 * GB), of_parameters(14 * GB).model
    step = next(one for one in figures_of(replace(student, teacher=teacher))[0].moments if "step" in one.name)
    parts = (PARAMETERS, GRADIENTS, OPTIMIZER_STATES, FROZEN_PARAMETERS)

    held = [step.components[name] for name in parts]

    assert held == pytest.approx([6 * GB, 6 * GB, 12 * GB, 28 * GB], rel=1e-6)
    assert sum(held) == pytest.approx(52 * GB, rel=1e-6)
    assert round(sum(held) / GIB, 1) == 48.4


def test_an_8b_lora_student_and_an_8b_teacher_fit_two_gpus_of_40_gib():
    """Measured: below 40 GiB a GPU of two A100s, with a sharded LoRA student (torchtune's recipe)."""
    job = llama3_8b(
        teacher=llama3_8b().model,
        adapter=Adapter("lora", 8, ("q_proj", "v_proj")),
        checkpointing=Checkpointing("full"),
        degrees=Degrees(data_parallel_shard_degree=2),
        sequence=2048,
    )

    assert figures_of(job)[0].peak.bytes < 40 * GIB


def test_a_teachers_activations_are_not_kept():
    job = llama3_8b(sequence=2048)
    of_student = figures_of(job)[0].moments[0].components
    with_teacher = figures_of(replace(job, teacher=job.model))[0].moments[0].components

    assert with_teacher[ACTIVATIONS] == of_student[ACTIVATIONS]
    # its logits and their softmax: 2 + 4 bytes
    assert with_teacher[TEMPORARIES] - of_student[TEMPORARIES] == 2048 * 128256 * 6


# "A Survey on Memory-Efficient Large-Scale Model Training" and "What a 100B model takes"


def test_1b_in_fp32_is_3_725_gib():
    assert states(of_parameters(GB, precision=FP32)).parameters / GIB == pytest.approx(3.725, abs=5e-4)


def test_llama_13b_in_fp32_is_52_gb():
    shape = {"hidden": 5120, "layers": 40, "heads": 40, "intermediate": 13824, "vocab": 32000}
    job = Job(Model("shape", "Llama 13B", json.dumps(shape)), "formulas", precision=FP32)

    assert parameter_count(decoder_of(job.model)) == 13_015_864_320  # hf.co/meta-llama/Llama-2-13b-hf
    assert round(states(job).parameters / GB) == 52


def test_mixed_precision_adam_is_16_bytes_a_parameter_and_with_8_bit_states_10():
    """A copy, momentum and variance in fp32; with 8-bit states the copy stays 4 bytes, a moment becomes 1."""
    mixed = of_parameters(GB, optimizer=Optimizer(keeps_master=True))
    small = of_parameters(GB, optimizer=Optimizer(keeps_master=True, bits=8, library="bitsandbytes"))

    assert all_states(mixed) == pytest.approx(16 * GB, rel=1e-6)
    assert states(mixed).optimizer == pytest.approx(12 * GB, rel=1e-6)
    # and a scale of 4 bytes for 256 numbers
    assert states(small).optimizer == pytest.approx((4 + 2 * (1 + 4 / 256)) * GB, rel=1e-6)


@pytest.mark.parametrize(("kind", "a_parameter"), [("fp32", 4), ("bf16", 2)])
def test_gradients_follow_the_parameters_type(kind, a_parameter):
    assert states(of_parameters(GB, precision=Precision("pure", kind))).gradients == pytest.approx(
        a_parameter * GB, rel=1e-6
    )


@pytest.mark.parametrize(("kind", "gb"), [("ddp", 120), ("zero1", 31.4), ("zero2", 16.6), ("zero3", 1.9)])
def test_zeros_example_of_7_5b_over_64_ranks(kind, gb):
    """ZeRO (arXiv:1910.02054), figure 1: 16, 4 + 12/N, 2 + 14/N and 16/N bytes a parameter."""
    degrees = {"ddp": Degrees(data_parallel_replicate_degree=64)}
    job = of_parameters(
        int(7.5 * GB),
        optimizer=Optimizer(keeps_master=True),
        data_parallel=DataParallel(kind),
        degrees=degrees.get(kind, Degrees(data_parallel_shard_degree=64)),
    )

    assert round(all_states(job) / GB, 1) == gb


def test_a_decoders_kv_cache_holds_keys_and_values_of_each_layer():
    """Llama 3 8B: 2 x 32 layers x 8 heads x 128 x 2 bytes are 128 KiB a token; 8,192 tokens are 1 GiB."""
    job = llama3_8b(micro_batch=1, generation=Generation(8000, 192, "static"))
    last = figures_of(job)[0].moments[-1]

    assert last.components[ACTIVATIONS] == GIB


# "Llama3-8B on two 48 GB GPUs"


def test_fp32_adamw_of_8b_over_two_gpus_is_48_gb_a_gpu():
    """8B x 4 bytes x 3 (parameter, exp_avg, exp_avg_sq) / 2: the states alone fill the card."""
    job = of_parameters(8 * GB, precision=FP32, degrees=Degrees(data_parallel_shard_degree=2))
    found = states(job)

    assert found.parameters + found.optimizer == pytest.approx(48 * GB, rel=1e-6)


def test_cpu_offload_takes_18_gb_a_gpu_and_155_gb_of_host_memory():
    """Of both ranks: 8.03B x 16 bytes of parameters, gradients and states, and 4 of square roots
    (foreach).
    """
    job = llama3_8b(
        precision=Precision("fsdp", "fp32", "bf16", "fp32"),
        optimizer=Optimizer(implementation="foreach"),
        checkpointing=Checkpointing("full"),
        offload=("parameters",),
        sequence=8192,
        degrees=Degrees(data_parallel_shard_degree=2),
    )
    [figure] = figures_of(job)

    assert 2 * sum(figure.host.values()) == pytest.approx(8_030_261_248 * 20, rel=1e-6)
    assert 2 * sum(figure.host.values()) == pytest.approx(155 * GB, rel=0.05)
    assert figure.peak.bytes == pytest.approx(18 * GB, rel=0.31)  # the margin of sharded jobs


# "Lowering the peak of training in PyTorch"


def test_the_vit_of_the_tutorial_has_its_parts():
    """ViT-L/16, 304.3M, fp32: 1.2 GB of parameters, of gradients and of foreach's square roots, 2.4 of
    states.
    """
    found = states(of_parameters(304_300_000, precision=FP32, optimizer=Optimizer("adam")))

    parts = (found.parameters, found.gradients, found.optimizer, found.step_temporaries)
    assert [round(part / GB, 1) for part in parts] == [1.2, 1.2, 2.4, 1.2]


def test_a_step_in_backward_holds_one_gradient_and_one_square_root():
    plain = of_parameters(304_300_000, precision=FP32, optimizer=Optimizer("adam"))
    in_backward = replace(plain, optimizer=Optimizer("adam", in_backward=True))
    step = figures_of(in_backward)[0].moments[-1].components

    assert figures_of(plain)[0].moments[-1].components[GRADIENTS] == pytest.approx(1.2172 * GB, rel=1e-6)
    assert step[GRADIENTS] == pytest.approx(1.2172 * GB / 2, rel=1e-6)  # embedding or head, half of all each
    assert step[TEMPORARIES] == pytest.approx(1.2172 * GB / 2, rel=1e-6)


@pytest.mark.parametrize(
    ("optimizer", "a_parameter"),
    [
        (Optimizer("adamw"), 8),
        (Optimizer("adamw", bits=8, library="bitsandbytes"), 2 + 8 / 256),
        (Optimizer("adamw", bits=4, library="torchao"), 1 + 8 / 128),
        (Optimizer("sgd"), 0),
        (Optimizer("sgd", momentum=True), 4),
        (Optimizer("lion"), 4),
    ],
)
def test_bytes_of_state_a_parameter(optimizer, a_parameter):
    job = of_parameters(GB, precision=FP32, optimizer=optimizer)

    assert states(job).optimizer == pytest.approx(a_parameter * GB, rel=1e-6)


def test_adafactor_keeps_a_row_and_a_column_of_each_matrix():
    """Llama's 4,096 x 4,096: 8,192 numbers of 4 bytes in place of AdamW's 2 x 16.8 million."""
    shape = {"hidden": 4096, "layers": 1, "heads": 32, "intermediate": 2, "vocab": 2}
    job = Job(Model("shape", "m", json.dumps(shape)), "formulas", optimizer=Optimizer("adafactor"))
    four = 4 * (4096 + 4096)  # queries, keys, values, output
    narrow = 5 * (4096 + 2)  # gate, up, down, embedding, head
    norms = 3 * 4096

    assert states(job).optimizer == 4 * (four + narrow + norms)


def test_fused_and_loop_have_no_list_of_square_roots():
    def temporaries(implementation):
        return states(of_parameters(GB, optimizer=Optimizer(implementation=implementation))).step_temporaries

    assert temporaries(None) == temporaries("foreach") == pytest.approx(2 * GB, rel=1e-6)
    assert temporaries("fused") == 0
    # of embedding or head, and its quotient
    assert temporaries("loop") == pytest.approx(2 * GB, rel=1e-6)


def test_paged_states_lie_on_the_host():
    optimizer = Optimizer(library="bitsandbytes", bits=8, is_paged=True)
    [figure] = figures_of(of_parameters(GB, optimizer=optimizer))

    assert figure.peak.components[OPTIMIZER_STATES] == 0
    assert figure.host[OPTIMIZER_STATES] == pytest.approx((2 + 8 / 256) * GB, rel=1e-6)


# "DeepSeek-V3"


def test_671b_is_1342_gb_of_bf16_and_5368_gb_with_16_bit_gradients_and_moments():
    job = of_parameters(671 * GB)

    assert states(job).parameters == pytest.approx(1342 * GB, rel=1e-6)
    assert all_states(job) == pytest.approx(5368 * GB, rel=1e-6)


def test_deepseek_v3s_configuration_has_671b():
    model = Model("config", "deepseek-v3", json.dumps({"model_type": "deepseek_v3"}))

    assert round(parameter_count(decoder_of(model)) / GB) == 671
