"""The operators of ``test_operators.py``, each with inputs that it makes on the device."""

import contextlib

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

N = 2**23
SIDE = 2048


def numbers(*shape, **options):
    return torch.randn(*(shape or (N,)), device="cuda", **options)


def leaf(*shape, **options):
    return numbers(*shape, **options).requires_grad_()


def whole_numbers(high, *shape):
    return torch.randint(0, high, shape or (N,), device="cuda")


def backward(result):
    result.backward(torch.ones_like(result))


@contextlib.contextmanager
def deterministic():
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def _attended(backend, *, mask=None, dropout=0.0, dtype=torch.float32, heads=8, length=1024):
    q, k, v = (leaf(2, heads, length, 64, dtype=dtype) for _ in range(3))
    with sdpa_kernel(backend):
        backward(F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout))


def any_all():
    x = numbers() > 0
    x.any()
    x.all()


def clip_grad_norm():
    x = nn.Parameter(numbers(SIDE, SIDE))
    x.grad = numbers(SIDE, SIDE)
    nn.utils.clip_grad_norm_([x], 1.0)


def scatter_add_deterministic():
    with deterministic():
        numbers().scatter_add_(0, whole_numbers(N, N // 4), numbers(N // 4))


def scatter_reduce_backward():
    x, source = leaf(SIDE, N // SIDE), leaf(SIDE, 1000)
    backward(x.scatter_reduce(1, whole_numbers(100, SIDE, 1000), source, reduce="amax"))


def index_add_deterministic():
    with deterministic():
        numbers(SIDE, N // SIDE).index_add_(0, whole_numbers(SIDE, 1000), numbers(1000, N // SIDE))


def embedding_bag_backward():
    indices = whole_numbers(30_000, 4096, 16)
    backward(F.embedding_bag(indices, leaf(30_000, 256), mode="mean"))


def take_along():
    x = numbers(SIDE, N // SIDE)
    torch.take_along_dim(x, whole_numbers(100, SIDE, 1000), dim=1)


def advanced_index_backward():
    x = leaf(SIDE, 64, 64)
    backward(x[whole_numbers(SIDE, 1000), whole_numbers(64, 1000)])


def eigh():
    x = numbers(1024, 1024)
    torch.linalg.eigh(x + x.T)


def eigh_batched():
    x = numbers(64, 64, 64)
    torch.linalg.eigh(x + x.mT)


def qr_backward():
    q, r = torch.linalg.qr(leaf(1024, 1024))
    (q.sum() + r.sum()).backward()


def istft():
    window = torch.hann_window(400, device="cuda")
    x = torch.stft(numbers(8, 160_000), 400, 160, window=window, return_complex=True)
    torch.istft(x, 400, 160, window=window)


def conv2d_bf16_nhwc_backward():
    image = numbers(32, 64, 56, 56, dtype=torch.bfloat16).to(memory_format=torch.channels_last)
    backward(F.conv2d(image.requires_grad_(), leaf(128, 64, 3, 3, dtype=torch.bfloat16), padding=1))


def grid_sample_backward():
    grid = torch.rand(8, 128, 128, 2, device="cuda", requires_grad=True)
    backward(F.grid_sample(leaf(8, 32, 128, 128), grid, align_corners=False))


def batch_norm_backward():
    mean, variance = torch.zeros(64, device="cuda"), torch.ones(64, device="cuda")
    backward(F.batch_norm(leaf(16, 64, 64, 64), mean, variance, leaf(64), leaf(64), training=True))


def multi_head_attention():
    layer = nn.MultiheadAttention(512, 8, batch_first=True, device="cuda")
    x = leaf(8, 512, 512)
    backward(layer(x, x, x)[0])


def encoder_layer_inference():
    layer = nn.TransformerEncoderLayer(512, 8, batch_first=True, device="cuda").eval()
    with torch.no_grad():
        layer(numbers(8, 512, 512))


def lstm_backward():
    layer = nn.LSTM(256, 512, num_layers=2, batch_first=True, dropout=0.1, device="cuda")
    backward(layer(leaf(32, 100, 256))[0])


def gru_bf16_backward():
    layer = nn.GRU(256, 512, bidirectional=True, device="cuda", dtype=torch.bfloat16)
    backward(layer(leaf(100, 32, 256, dtype=torch.bfloat16))[0])


def rnn_inference():
    layer = nn.RNN(256, 512, device="cuda")
    with torch.no_grad():
        layer(numbers(100, 32, 256))


def ctc_loss_backward():
    lengths = torch.full((16,), 200, dtype=torch.long)
    targets = whole_numbers(99, 16, 50) + 1
    scores = F.log_softmax(leaf(200, 16, 100), dim=-1)
    F.ctc_loss(scores, targets, lengths, torch.full((16,), 50, dtype=torch.long)).backward()


def sparse_coalesce():
    values = numbers(N // 4)
    torch.sparse_coo_tensor(whole_numbers(SIDE, 2, N // 4), values, (SIDE, SIDE)).coalesce()


def sparse_mm():
    x = torch.sparse_coo_tensor(whole_numbers(SIDE, 2, 100_000), numbers(100_000), (SIDE, SIDE))
    torch.sparse.mm(x, numbers(SIDE, SIDE))


def nested_pad():
    rows = [numbers(length, 256) for length in (1000, 3000, 500, 2048)]
    torch.nested.nested_tensor(rows, layout=torch.jagged).to_padded_tensor(0.0)


def where_backward():
    x = leaf()
    backward(torch.where(x > 0, x, 0.0))


def masked_fill_scalar():
    x = numbers()
    x.masked_fill(x > 0, float("-inf"))


def autocast_linear_backward():
    layer = nn.Linear(SIDE, SIDE, device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        result = layer(leaf(SIDE, SIDE))
    backward(result)


def grad_scaler_unscale():
    x = nn.Parameter(numbers(SIDE, SIDE))
    optimizer = torch.optim.SGD([x], lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    scaler.scale((x * 2).sum()).backward()
    scaler.step(optimizer)
    scaler.update()


def fake_quantize():
    x = numbers(SIDE, SIDE)
    torch.fake_quantize_per_channel_affine(
        x, torch.ones(SIDE, device="cuda"), torch.zeros(SIDE, device="cuda", dtype=torch.int32), 0, -128, 127
    )


def scaled_mm_fp8():
    a, b = numbers(SIDE, SIDE).to(torch.float8_e4m3fn), numbers(SIDE, SIDE).to(torch.float8_e4m3fn)
    one = torch.ones((), device="cuda")
    torch._scaled_mm(a, b.T, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)


def int8_mm():
    a = torch.ones(SIDE, SIDE, device="cuda", dtype=torch.int8)
    torch._int_mm(a, a.T)


#: Each operator by its name in ``test_operators.py``; those of one call as they are.
OPERATORS = {
    # sorting and selecting
    "sort": lambda: torch.sort(numbers()),
    "sort_rows": lambda: torch.sort(numbers(SIDE, N // SIDE), dim=1),
    "argsort_ints": lambda: torch.argsort(whole_numbers(1000), stable=True),
    "topk": lambda: torch.topk(numbers(), 100),
    "topk_rows": lambda: torch.topk(numbers(64, N // 64), 50, dim=1),
    "kthvalue": lambda: torch.kthvalue(numbers(SIDE, N // SIDE), 7, dim=1),
    "median": lambda: torch.median(numbers(SIDE, N // SIDE), dim=1),
    "mode": lambda: torch.mode(whole_numbers(1000, 512, 4096), dim=1),
    "unique": lambda: torch.unique(torch.arange(N, device="cuda")),
    "unique_inverse": lambda: torch.unique(
        torch.arange(N, device="cuda"), return_inverse=True, return_counts=True
    ),
    "unique_consecutive": lambda: torch.unique_consecutive(torch.arange(N, device="cuda")),
    "nonzero": lambda: torch.nonzero(torch.ones(N, device="cuda")),
    "masked_select": lambda: torch.masked_select(numbers(), torch.ones(N, device="cuda", dtype=torch.bool)),
    "searchsorted": lambda: torch.searchsorted(torch.arange(N, device="cuda").float(), numbers()),
    "bucketize": lambda: torch.bucketize(numbers(), torch.arange(1000.0, device="cuda")),
    "isin": lambda: torch.isin(whole_numbers(1000), torch.arange(8, device="cuda")),
    "bincount": lambda: torch.bincount(whole_numbers(1000), minlength=1000),
    "histc": lambda: torch.histc(numbers(), bins=100, min=-3, max=3),
    "randperm": lambda: torch.randperm(N, device="cuda"),
    "multinomial": lambda: torch.multinomial(torch.ones(64, 2**16, device="cuda"), 32),
    # sums
    "cumsum": lambda: torch.cumsum(numbers(), 0),
    "cumsum_rows": lambda: torch.cumsum(numbers(SIDE, N // SIDE), 1),
    "cumprod_backward": lambda: backward(torch.cumprod(leaf(SIDE, N // SIDE), 1)),
    "logcumsumexp": lambda: torch.logcumsumexp(numbers(SIDE, N // SIDE), 1),
    "sum_to_one": lambda: numbers().sum(),
    "norm": lambda: torch.linalg.vector_norm(numbers()),
    "var_mean": lambda: torch.var_mean(numbers(SIDE, N // SIDE), dim=0),
    "logsumexp": lambda: torch.logsumexp(numbers(SIDE, N // SIDE), 1),
    "softmax_backward": lambda: backward(F.softmax(leaf(SIDE, N // SIDE), dim=-1)),
    "cross_entropy_backward": lambda: F.cross_entropy(
        leaf(SIDE, N // SIDE), whole_numbers(N // SIDE, SIDE), label_smoothing=0.1
    ).backward(),
    "any_all": any_all,
    "max_dim_backward": lambda: backward(leaf(SIDE, N // SIDE).max(dim=1).values),
    "prod_backward": lambda: backward(leaf(SIDE, N // SIDE).prod(dim=1)),
    "clip_grad_norm": clip_grad_norm,
    # gathers and scatters
    "gather_backward": lambda: backward(leaf(SIDE, N // SIDE).gather(1, whole_numbers(100, SIDE, 1000))),
    "index_select_backward": lambda: backward(
        leaf(SIDE, N // SIDE).index_select(0, whole_numbers(SIDE, 3000))
    ),
    "index_put_accumulate": lambda: numbers(SIDE, N // SIDE).index_put_(
        (whole_numbers(SIDE, 1000),), numbers(1000, N // SIDE), accumulate=True
    ),
    "index_put": lambda: numbers(SIDE, N // SIDE).index_put_(
        (whole_numbers(SIDE, 1000),), numbers(1000, N // SIDE)
    ),
    "scatter_add": lambda: numbers(SIDE, N // SIDE).scatter_add_(
        1, whole_numbers(100, SIDE, 1000), numbers(SIDE, 1000)
    ),
    "scatter_add_deterministic": scatter_add_deterministic,
    "scatter_reduce_backward": scatter_reduce_backward,
    "index_add": lambda: numbers(SIDE, N // SIDE).index_add_(
        0, whole_numbers(SIDE, 1000), numbers(1000, N // SIDE)
    ),
    "index_add_deterministic": index_add_deterministic,
    "embedding_backward": lambda: backward(F.embedding(whole_numbers(30_000, 8, 512), leaf(30_000, 256))),
    "embedding_bag_backward": embedding_bag_backward,
    "embedding_sparse_backward": lambda: backward(
        F.embedding(whole_numbers(30_000, 8, 512), leaf(30_000, 256), sparse=True)
    ),
    "take_along": take_along,
    "advanced_index_backward": advanced_index_backward,
    "tril_indices": lambda: torch.tril_indices(SIDE, SIDE, device="cuda"),
    # linear algebra
    "matmul": lambda: numbers(SIDE, SIDE) @ numbers(SIDE, SIDE),
    "matmul_bf16_fp32_out": lambda: (
        numbers(SIDE, SIDE, dtype=torch.bfloat16) @ numbers(SIDE, SIDE, dtype=torch.bfloat16)
    ),
    "baddbmm": lambda: torch.baddbmm(numbers(8, 1024, 1024), numbers(8, 1024, 512), numbers(8, 512, 1024)),
    "addmm_bias_gelu": lambda: F.gelu(F.linear(numbers(SIDE, SIDE), numbers(SIDE, SIDE), numbers(SIDE))),
    "einsum": lambda: torch.einsum("bhid,bhjd->bhij", numbers(4, 8, 512, 64), numbers(4, 8, 512, 64)),
    "bilinear_backward": lambda: backward(F.bilinear(leaf(1024, 128), leaf(1024, 128), leaf(64, 128, 128))),
    "svd": lambda: torch.linalg.svd(numbers(1024, 1024), full_matrices=False),
    "svd_batched": lambda: torch.linalg.svd(numbers(64, 64, 64)),
    "eigh": eigh,
    "eigh_batched": eigh_batched,
    "eig": lambda: torch.linalg.eig(numbers(256, 256)),
    "qr_backward": qr_backward,
    "lu": lambda: torch.linalg.lu_factor(numbers(1024, 1024)),
    "lu_batched": lambda: torch.linalg.lu_factor(numbers(64, 128, 128)),
    "cholesky_batched": lambda: torch.linalg.cholesky(torch.eye(256, device="cuda").repeat(32, 1, 1)),
    "cholesky_solve": lambda: torch.cholesky_solve(numbers(1024, 8), torch.eye(1024, device="cuda")),
    "inverse": lambda: torch.linalg.inv(numbers(1024, 1024)),
    "solve_batched": lambda: torch.linalg.solve(numbers(64, 128, 128), numbers(64, 128, 16)),
    "pinv": lambda: torch.linalg.pinv(numbers(1024, 1024)),
    "lstsq": lambda: torch.linalg.lstsq(numbers(2048, 256), numbers(2048, 8)),
    "matrix_exp": lambda: torch.linalg.matrix_exp(numbers(16, 256, 256) * 0.01),
    "det_backward": lambda: backward(torch.linalg.det(leaf(16, 256, 256))),
    "triangular_solve": lambda: torch.linalg.solve_triangular(
        numbers(1024, 1024), numbers(1024, 1024), upper=True
    ),
    "tensordot": lambda: torch.tensordot(numbers(64, 32, 512), numbers(512, 32, 64), dims=([1, 2], [1, 0])),
    "cdist_backward": lambda: backward(torch.cdist(leaf(2000, 64), leaf(3000, 64))),
    "cross": lambda: torch.linalg.cross(numbers(N // 4, 3), numbers(N // 4, 3)),
    # fourier
    "fft": lambda: torch.fft.fft(numbers(64, N // 64)),
    "rfft_2d": lambda: torch.fft.irfft2(torch.fft.rfft2(numbers(8, 512, 512))),
    "fft_odd": lambda: torch.fft.fft(numbers(16, 100_003)),
    "stft": lambda: torch.stft(
        numbers(8, 160_000), 400, 160, window=torch.hann_window(400, device="cuda"), return_complex=True
    ),
    "istft": istft,
    # convolutions and pooling
    "conv1d_backward": lambda: backward(F.conv1d(leaf(16, 80, 3000), leaf(384, 80, 3), leaf(384), padding=1)),
    "conv2d_1x1_backward": lambda: backward(F.conv2d(leaf(16, 256, 56, 56), leaf(64, 256, 1, 1))),
    "conv2d_3x3_backward": lambda: backward(F.conv2d(leaf(16, 64, 112, 112), leaf(64, 64, 3, 3), padding=1)),
    "conv2d_5x5_fp32": lambda: F.conv2d(numbers(8, 64, 128, 128), numbers(64, 64, 5, 5), padding=2),
    "conv2d_grouped_backward": lambda: backward(
        F.conv2d(leaf(16, 128, 56, 56), leaf(128, 4, 3, 3), padding=1, groups=32)
    ),
    "conv2d_depthwise_backward": lambda: backward(
        F.conv2d(leaf(16, 96, 56, 56), leaf(96, 1, 7, 7), padding=3, groups=96)
    ),
    "conv2d_bf16_nhwc_backward": conv2d_bf16_nhwc_backward,
    "conv_transpose_backward": lambda: backward(
        F.conv_transpose2d(leaf(8, 64, 64, 64), leaf(64, 32, 4, 4), stride=2, padding=1)
    ),
    "conv3d_backward": lambda: backward(F.conv3d(leaf(2, 16, 32, 64, 64), leaf(32, 16, 3, 3, 3), padding=1)),
    "conv2d_dilated": lambda: F.conv2d(
        numbers(8, 64, 128, 128), numbers(64, 64, 3, 3), padding=4, dilation=4
    ),
    "unfold_backward": lambda: backward(F.unfold(leaf(8, 32, 128, 128), 3, padding=1)),
    "max_pool_backward": lambda: backward(F.max_pool2d(leaf(16, 64, 112, 112), 3, 2, 1)),
    "avg_pool_backward": lambda: backward(F.avg_pool2d(leaf(16, 64, 112, 112), 2)),
    "adaptive_pool_backward": lambda: backward(F.adaptive_avg_pool2d(leaf(16, 64, 112, 112), 7)),
    "interpolate_backward": lambda: backward(
        F.interpolate(leaf(8, 32, 128, 128), scale_factor=2, mode="bilinear")
    ),
    "grid_sample_backward": grid_sample_backward,
    "pixel_shuffle": lambda: F.pixel_shuffle(numbers(8, 64, 128, 128), 2),
    "pad_reflect_backward": lambda: backward(F.pad(leaf(8, 32, 128, 128), (3, 3, 3, 3), mode="reflect")),
    # normalisation and layers
    "layer_norm_backward": lambda: backward(F.layer_norm(leaf(8192, 1024), (1024,), leaf(1024), leaf(1024))),
    "group_norm_backward": lambda: backward(F.group_norm(leaf(16, 64, 64, 64), 8, leaf(64), leaf(64))),
    "batch_norm_backward": batch_norm_backward,
    "rms_norm_backward": lambda: backward(F.rms_norm(leaf(8192, 1024), (1024,), leaf(1024))),
    "instance_norm_backward": lambda: backward(F.instance_norm(leaf(16, 64, 64, 64))),
    "dropout_backward": lambda: backward(F.dropout(leaf(), 0.1)),
    "gelu_backward": lambda: backward(F.gelu(leaf(), approximate="tanh")),
    "glu_backward": lambda: backward(F.glu(leaf(SIDE, N // SIDE))),
    "multi_head_attention": multi_head_attention,
    "encoder_layer_inference": encoder_layer_inference,
    "lstm_backward": lstm_backward,
    "gru_bf16_backward": gru_bf16_backward,
    "rnn_inference": rnn_inference,
    "ctc_loss_backward": ctc_loss_backward,
    "nll_2d_backward": lambda: F.cross_entropy(
        leaf(8, 21, 128, 128), whole_numbers(21, 8, 128, 128)
    ).backward(),
    "sdpa_math_mask": lambda: _attended(SDPBackend.MATH, mask=numbers(1024, 1024)),
    "sdpa_efficient_dropout": lambda: _attended(SDPBackend.EFFICIENT_ATTENTION, dropout=0.1),
    "sdpa_flash_backward": lambda: _attended(SDPBackend.FLASH_ATTENTION, dtype=torch.float16, length=4000),
    # sparse and nested
    "sparse_coalesce": sparse_coalesce,
    "sparse_mm": sparse_mm,
    "csr_matmul": lambda: torch.eye(SIDE, device="cuda").to_sparse_csr() @ numbers(SIDE, SIDE),
    "nested_pad": nested_pad,
    # random numbers, copies, dtypes
    "normal": lambda: torch.empty(N, device="cuda").normal_(),
    "bernoulli": lambda: torch.bernoulli(torch.rand(N, device="cuda")),
    "exponential": lambda: torch.empty(N, device="cuda").exponential_(),
    "rand_ints": lambda: torch.randint(0, 10, (N,), device="cuda", dtype=torch.int32),
    "to_bf16_and_back": lambda: numbers().bfloat16().float(),
    "contiguous_transpose": lambda: numbers(SIDE, N // SIDE).T.contiguous(),
    "cat_backward": lambda: backward(torch.cat([leaf(N // 4) for _ in range(4)])),
    "stack_chunks": lambda: torch.stack(numbers().chunk(8)),
    "repeat_interleave_backward": lambda: backward(leaf(SIDE, N // SIDE // 4).repeat_interleave(4, dim=1)),
    "where_backward": where_backward,
    "roll_flip": lambda: numbers(SIDE, N // SIDE).roll(3, 1).flip(0),
    "complex_product_backward": lambda: backward(
        torch.view_as_complex(leaf(N // 2, 2)) * torch.view_as_complex(leaf(N // 2, 2))
    ),
    "masked_fill_scalar": masked_fill_scalar,
    "float64_sum": lambda: numbers(N, dtype=torch.float64).sum(dtype=torch.float64),
    "pinned_copy": lambda: torch.empty(N, pin_memory=True).to("cuda", non_blocking=True),
    "clone_to_host": lambda: numbers().clone().cpu(),
    # foreach, autocast, low precision
    "foreach_norms": lambda: torch._foreach_norm([numbers(N // 64) for _ in range(64)]),
    "autocast_linear_backward": autocast_linear_backward,
    "grad_scaler_unscale": grad_scaler_unscale,
    "fake_quantize": fake_quantize,
    "scaled_mm_fp8": scaled_mm_fp8,
    "int8_mm": int8_mm,
}
