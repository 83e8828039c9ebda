"""Single operators, forward and backward: what each takes inside, beside its inputs and results.

The budgets are ceilings; what these tests are for is the difference between estimate and measurement, which
``--membudget-report`` has for each. Most inputs are 32 MiB.
"""

import pytest

MIB = 1 / 1024

pytestmark = pytest.mark.filterwarnings("default")


def _operator(name, mib):
    return pytest.param(name, marks=pytest.mark.mem_budget(gib=mib * MIB, gpu="H200"), id=name)


CEILINGS_MIB = {
    # sorting and selecting: results of 32 + 64 MiB, keys and values twice, a workspace
    "sort": 600, "sort_rows": 600, "argsort_ints": 700, "topk": 300, "topk_rows": 300, "kthvalue": 300,
    "median": 500, "mode": 600, "unique": 700, "unique_inverse": 900, "unique_consecutive": 500,
    "nonzero": 500, "masked_select": 300, "searchsorted": 300, "bucketize": 300, "isin": 700,
    "bincount": 300, "histc": 200, "randperm": 500, "multinomial": 500,
    # sums
    "cumsum": 200, "cumsum_rows": 200, "cumprod_backward": 600, "logcumsumexp": 300, "sum_to_one": 150,
    "norm": 200, "var_mean": 400, "logsumexp": 300, "softmax_backward": 400,
    "cross_entropy_backward": 500, "any_all": 150, "max_dim_backward": 300, "prod_backward": 400,
    "clip_grad_norm": 300,
    # gathers and scatters
    "gather_backward": 400, "index_select_backward": 500, "index_put_accumulate": 800, "index_put": 500,
    "scatter_add": 400, "scatter_add_deterministic": 900, "scatter_reduce_backward": 900,
    "index_add": 400, "index_add_deterministic": 900, "embedding_backward": 500,
    "embedding_bag_backward": 800, "embedding_sparse_backward": 500, "take_along": 300,
    "advanced_index_backward": 900, "tril_indices": 400,
    # linear algebra
    "matmul": 200, "matmul_bf16_fp32_out": 200, "baddbmm": 400, "addmm_bias_gelu": 300, "einsum": 400,
    "bilinear_backward": 900, "svd": 700, "svd_batched": 700, "eigh": 500, "eigh_batched": 500,
    "eig": 700, "qr_backward": 600, "lu": 300, "lu_batched": 300, "cholesky_batched": 300,
    "cholesky_solve": 300, "inverse": 300, "solve_batched": 400, "pinv": 700, "lstsq": 500,
    "matrix_exp": 900, "det_backward": 500, "triangular_solve": 300, "tensordot": 300,
    "cdist_backward": 900, "cross": 500,
    # fourier
    "fft": 700, "rfft_2d": 500, "fft_odd": 900, "stft": 900, "istft": 1200,
    # convolutions and pooling
    "conv1d_backward": 900, "conv2d_1x1_backward": 900, "conv2d_3x3_backward": 1800,
    "conv2d_5x5_fp32": 4000, "conv2d_grouped_backward": 1200, "conv2d_depthwise_backward": 900,
    "conv2d_bf16_nhwc_backward": 1200, "conv_transpose_backward": 1800, "conv3d_backward": 2500,
    "conv2d_dilated": 2500, "unfold_backward": 1500, "max_pool_backward": 900, "avg_pool_backward": 600,
    "adaptive_pool_backward": 600, "interpolate_backward": 900, "grid_sample_backward": 900,
    "pixel_shuffle": 300, "pad_reflect_backward": 400,
    # normalisation and layers
    "layer_norm_backward": 600, "group_norm_backward": 700, "batch_norm_backward": 600,
    "rms_norm_backward": 700, "instance_norm_backward": 900, "dropout_backward": 400,
    "gelu_backward": 300, "glu_backward": 400, "multi_head_attention": 1500,
    "encoder_layer_inference": 900, "lstm_backward": 900, "gru_bf16_backward": 900, "rnn_inference": 500,
    "ctc_loss_backward": 600, "nll_2d_backward": 600, "sdpa_math_mask": 900,
    "sdpa_efficient_dropout": 600, "sdpa_flash_backward": 500,
    # sparse and nested
    "sparse_coalesce": 900, "sparse_mm": 600, "csr_matmul": 600, "nested_pad": 400,
    # random numbers, copies, dtypes
    "normal": 100, "bernoulli": 200, "exponential": 100, "rand_ints": 200, "to_bf16_and_back": 300,
    "contiguous_transpose": 200, "cat_backward": 500, "stack_chunks": 400,
    "repeat_interleave_backward": 500, "where_backward": 400, "roll_flip": 400,
    "complex_product_backward": 800, "masked_fill_scalar": 300, "float64_sum": 300, "pinned_copy": 200,
    "clone_to_host": 200,
    # foreach, autocast, low precision
    "foreach_norms": 300, "autocast_linear_backward": 500, "grad_scaler_unscale": 300,
    "fake_quantize": 400, "scaled_mm_fp8": 200, "int8_mm": 200,
}  # fmt: skip


@pytest.mark.parametrize("name", [_operator(name, mib) for name, mib in CEILINGS_MIB.items()])
def test_twice(name):
    from gpu_operators import OPERATORS

    for _ in range(2):
        OPERATORS[name]()
