"""What clients/test_diffusers.py, test_deepspeed.py and test_fla.py come to, held to arithmetic by hand."""

import pytest

from tests.clients.conftest import Figures

NEEDED = ("diffusers", "deepspeed", "fla")
MIB = 2**20
#: of four blocks, each of two linears between 1024 and 4096
NUMBERS = 4 * (2 * 1024 * 4096 + 4096 + 1024)
RANKS = 2


@pytest.fixture(scope="module")
def figures(rows_of):
    rows = {row["nodeid"].rpartition("::")[2]: row for row in rows_of("diffusers", "deepspeed", "fla")}
    return lambda name: Figures(rows[name])


def test_a_denoiser_has_fp32_weights_and_two_states(figures):
    """Without checkpoints the peak is in a forward or backward, with gradients set to none before.

    The model is made on the host, and moved.
    """
    plain, checkpointed = (figures(f"test_denoising_step[{on}]") for on in (False, True))

    for run in (plain, checkpointed):
        made = run.host["parameters"]
        assert run.optimizer_states == 2 * made  # steps lie on the host
        assert made < run.parameters < 1.5 * made  # and autocast's copies in bf16
    assert checkpointed.activations < plain.activations / 10


def test_a_transformer_in_bf16_has_states_of_its_type(figures):
    run = figures("test_flux_transformer")

    assert run.optimizer_states == pytest.approx(2 * run.parameters, rel=1e-3)  # fused: steps on the card


def test_inference_keeps_no_gradients(figures):
    for name in ("test_autoencoder", "test_pipeline"):
        assert figures(name).gradients == figures(name).optimizer_states == 0


def test_zero_0_holds_all_of_it_on_each_rank(figures):
    """bf16 weights, fp32 masters (6 bytes a number); Adam's two states in fp32."""
    run = figures("test_zero[0]")

    assert run.ranks == [0, 1]
    assert run.parameters == 6 * NUMBERS
    assert run.optimizer_states == 8 * NUMBERS


@pytest.mark.parametrize("stage", [1, 2])
def test_zero_1_and_2_divide_masters_and_states(figures, stage):
    """arXiv:1910.02054, section 3: of K = 12 bytes a number each rank has its part."""
    run = figures(f"test_zero[{stage}]")

    assert run.parameters == 2 * NUMBERS + 4 * NUMBERS // RANKS
    assert run.optimizer_states == 8 * NUMBERS // RANKS
    assert not any("overflow" in text and "1" in text for text in run.assumptions)


@pytest.mark.parametrize("stage", [2, 3])
def test_gradients_are_reduced_in_a_bucket_of_half_a_billion_numbers(figures, stage):
    """``reduce_bucket_size`` is 5e8 where the configuration does not say: a GB of bf16."""
    assert figures(f"test_zero[{stage}]").gradients == 2 * 5 * 10**8


def test_zero_3_divides_states_too(figures):
    assert figures("test_zero[3]").optimizer_states == 8 * NUMBERS // RANKS


def test_smaller_buckets_are_what_the_configuration_says(figures):
    """Two numbers of the configuration decide a GB: the bucket is 2**24 numbers of bf16, 32 MiB."""
    large, small = figures("test_zero[2]"), figures("test_small_buckets")

    assert small.parameters == large.parameters
    assert small.allocated < large.allocated - 800 * MIB


@pytest.mark.parametrize("name", ["test_gated_linear_attention", "test_gated_delta_net"])
def test_triton_layers_have_what_autotuning_takes(figures, name):
    """The benchmark's buffer of 256 MiB (triton/testing.py), and gradients of all weights at the end."""
    run = figures(name)

    assert run.temporaries > 256 * MIB
    assert run.inputs == 2 * 1024 * 1024 * 2
