"""The operators of ``test_operators.py``, a function each, with inputs that it makes on the device."""

from __future__ import annotations

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


# sorting and selecting


def sort():
    torch.sort(numbers())


def sort_rows():
    torch.sort(numbers(SIDE, N // SIDE), dim=1)


def argsort_ints():
    torch.argsort(whole_numbers(1000), stable=True)


def topk():
    torch.topk(numbers(), 100)


def topk_rows():
    torch.topk(numbers(64, N // 64), 50, dim=1)


def kthvalue():
    torch.kthvalue(numbers(SIDE, N // SIDE), 7, dim=1)


def median():
    torch.median(numbers(SIDE, N // SIDE), dim=1)


def mode():
    torch.mode(whole_numbers(1000, 512, 4096), dim=1)


def unique():
    torch.unique(torch.arange(N, device="cuda"))


def unique_inverse():
    torch.unique(torch.arange(N, device="cuda"), return_inverse=True, return_counts=True)


def unique_consecutive():
    torch.unique_consecutive(torch.arange(N, device="cuda"))


def nonzero():
    torch.nonzero(torch.ones(N, device="cuda"))


def masked_select():
    torch.masked_select(numbers(), torch.ones(N, device="cuda", dtype=torch.bool))


def searchsorted():
    torch.searchsorted(torch.arange(N, device="cuda").float(), numbers())


def bucketize():
    torch.bucketize(numbers(), torch.arange(1000.0, device="cuda"))


def isin():
    torch.isin(whole_numbers(1000), torch.arange(8, device="cuda"))


def bincount():
    torch.bincount(whole_numbers(1000), minlength=1000)


def histc():
    torch.histc(numbers(), bins=100, min=-3, max=3)


def randperm():
    torch.randperm(N, device="cuda")


def multinomial():
    torch.multinomial(torch.ones(64, 2**16, device="cuda"), 32)


# sums


def cumsum():
    torch.cumsum(numbers(), 0)


def cumsum_rows():
    torch.cumsum(numbers(SIDE, N // SIDE), 1)


def cumprod_backward():
    backward(torch.cumprod(leaf(SIDE, N // SIDE), 1))


def logcumsumexp():
    torch.logcumsumexp(numbers(SIDE, N // SIDE), 1)


def sum_to_one():
    numbers().sum()


def norm():
    torch.linalg.vector_norm(numbers())


def var_mean():
    torch.var_mean(numbers(SIDE, N // SIDE), dim=0)


def logsumexp():
    torch.logsumexp(numbers(SIDE, N // SIDE), 1)


def softmax_backward():
    backward(F.softmax(leaf(SIDE, N // SIDE), dim=-1))


def cross_entropy_backward():
    F.cross_entropy(leaf(SIDE, N // SIDE), whole_numbers(N // SIDE, SIDE), label_smoothing=0.1).backward()


def any_all():
    x = numbers() > 0
    x.any()
    x.all()


def max_dim_backward():
    backward(leaf(SIDE, N // SIDE).max(dim=1).values)


def prod_backward():
    backward(leaf(SIDE, N // SIDE).prod(dim=1))


def clip_grad_norm():
    x = nn.Parameter(numbers(SIDE, SIDE))
    x.grad = numbers(SIDE, SIDE)
    nn.utils.clip_grad_norm_([x], 1.0)


# gathers and scatters


def gather_backward():
    backward(leaf(SIDE, N // SIDE).gather(1, whole_numbers(100, SIDE, 1000)))


def index_select_backward():
    backward(leaf(SIDE, N // SIDE).index_select(0, whole_numbers(SIDE, 3000)))


def index_put_accumulate():
    numbers(SIDE, N // SIDE).index_put_(
        (whole_numbers(SIDE, 1000),), numbers(1000, N // SIDE), accumulate=True
    )


def index_put():
    numbers(SIDE, N // SIDE).index_put_((whole_numbers(SIDE, 1000),), numbers(1000, N // SIDE))


def scatter_add():
    numbers(SIDE, N // SIDE).scatter_add_(1, whole_numbers(100, SIDE, 1000), numbers(SIDE, 1000))


def scatter_add_deterministic():
    with deterministic():
        numbers().scatter_add_(0, whole_numbers(N, N // 4), numbers(N // 4))


def scatter_reduce_backward():
    x, source = leaf(SIDE, N // SIDE), leaf(SIDE, 1000)
    backward(x.scatter_reduce(1, whole_numbers(100, SIDE, 1000), source, reduce="amax"))


def index_add():
    numbers(SIDE, N // SIDE).index_add_(0, whole_numbers(SIDE, 1000), numbers(1000, N // SIDE))


def index_add_deterministic():
    with deterministic():
        numbers(SIDE, N // SIDE).index_add_(0, whole_numbers(SIDE, 1000), numbers(1000, N // SIDE))


def embedding_backward():
    backward(F.embedding(whole_numbers(30_000, 8, 512), leaf(30_000, 256)))


def embedding_bag_backward():
    indices = whole_numbers(30_000, 4096, 16)
    backward(F.embedding_bag(indices, leaf(30_000, 256), mode="mean"))


def embedding_sparse_backward():
    backward(F.embedding(whole_numbers(30_000, 8, 512), leaf(30_000, 256), sparse=True))


def take_along():
    x = numbers(SIDE, N // SIDE)
    torch.take_along_dim(x, whole_numbers(100, SIDE, 1000), dim=1)


def advanced_index_backward():
    x = leaf(SIDE, 64, 64)
    backward(x[whole_numbers(SIDE, 1000), whole_numbers(64, 1000)])


def tril_indices():
    torch.tril_indices(SIDE, SIDE, device="cuda")


# linear algebra


def matmul():
    numbers(SIDE, SIDE) @ numbers(SIDE, SIDE)


def matmul_bf16_fp32_out():
    numbers(SIDE, SIDE, dtype=torch.bfloat16) @ numbers(SIDE, SIDE, dtype=torch.bfloat16)


def baddbmm():
    torch.baddbmm(numbers(8, 1024, 1024), numbers(8, 1024, 512), numbers(8, 512, 1024))


def addmm_bias_gelu():
    F.gelu(F.linear(numbers(SIDE, SIDE), numbers(SIDE, SIDE), numbers(SIDE)))


def einsum():
    torch.einsum("bhid,bhjd->bhij", numbers(4, 8, 512, 64), numbers(4, 8, 512, 64))


def bilinear_backward():
    backward(F.bilinear(leaf(1024, 128), leaf(1024, 128), leaf(64, 128, 128)))


def svd():
    torch.linalg.svd(numbers(1024, 1024), full_matrices=False)


def svd_batched():
    torch.linalg.svd(numbers(64, 64, 64))


def eigh():
    x = numbers(1024, 1024)
    torch.linalg.eigh(x + x.T)


def eigh_batched():
    x = numbers(64, 64, 64)
    torch.linalg.eigh(x + x.mT)


def eig():
    torch.linalg.eig(numbers(256, 256))


def qr_backward():
    q, r = torch.linalg.qr(leaf(1024, 1024))
    (q.sum() + r.sum()).backward()


def lu():
    torch.linalg.lu_factor(numbers(1024, 1024))


def lu_batched():
    torch.linalg.lu_factor(numbers(64, 128, 128))


def cholesky_batched():
    torch.linalg.cholesky(torch.eye(256, device="cuda").repeat(32, 1, 1))


def cholesky_solve():
    torch.cholesky_solve(numbers(1024, 8), torch.eye(1024, device="cuda"))


def inverse():
    torch.linalg.inv(numbers(1024, 1024))


def solve_batched():
    torch.linalg.solve(numbers(64, 128, 128), numbers(64, 128, 16))


def pinv():
    torch.linalg.pinv(numbers(1024, 1024))


def lstsq():
    torch.linalg.lstsq(numbers(2048, 256), numbers(2048, 8))


def matrix_exp():
    torch.linalg.matrix_exp(numbers(16, 256, 256) * 0.01)


def det_backward():
    backward(torch.linalg.det(leaf(16, 256, 256)))


def triangular_solve():
    torch.linalg.solve_triangular(numbers(1024, 1024), numbers(1024, 1024), upper=True)


def tensordot():
    torch.tensordot(numbers(64, 32, 512), numbers(512, 32, 64), dims=([1, 2], [1, 0]))


def cdist_backward():
    backward(torch.cdist(leaf(2000, 64), leaf(3000, 64)))


def cross():
    torch.linalg.cross(numbers(N // 4, 3), numbers(N // 4, 3))


# fourier


def fft():
    torch.fft.fft(numbers(64, N // 64))


def rfft_2d():
    torch.fft.irfft2(torch.fft.rfft2(numbers(8, 512, 512)))


def fft_odd():
    torch.fft.fft(numbers(16, 100_003))


def stft():
    torch.stft(
        numbers(8, 160_000), 400, 160, window=torch.hann_window(400, device="cuda"), return_complex=True
    )


def istft():
    window = torch.hann_window(400, device="cuda")
    x = torch.stft(numbers(8, 160_000), 400, 160, window=window, return_complex=True)
    torch.istft(x, 400, 160, window=window)


# convolutions and pooling


def conv1d_backward():
    backward(F.conv1d(leaf(16, 80, 3000), leaf(384, 80, 3), leaf(384), padding=1))


def conv2d_1x1_backward():
    backward(F.conv2d(leaf(16, 256, 56, 56), leaf(64, 256, 1, 1)))


def conv2d_3x3_backward():
    backward(F.conv2d(leaf(16, 64, 112, 112), leaf(64, 64, 3, 3), padding=1))


def conv2d_5x5_fp32():
    F.conv2d(numbers(8, 64, 128, 128), numbers(64, 64, 5, 5), padding=2)


def conv2d_grouped_backward():
    backward(F.conv2d(leaf(16, 128, 56, 56), leaf(128, 4, 3, 3), padding=1, groups=32))


def conv2d_depthwise_backward():
    backward(F.conv2d(leaf(16, 96, 56, 56), leaf(96, 1, 7, 7), padding=3, groups=96))


def conv2d_bf16_nhwc_backward():
    image = numbers(32, 64, 56, 56, dtype=torch.bfloat16).to(memory_format=torch.channels_last)
    backward(F.conv2d(image.requires_grad_(), leaf(128, 64, 3, 3, dtype=torch.bfloat16), padding=1))


def conv_transpose_backward():
    backward(F.conv_transpose2d(leaf(8, 64, 64, 64), leaf(64, 32, 4, 4), stride=2, padding=1))


def conv3d_backward():
    backward(F.conv3d(leaf(2, 16, 32, 64, 64), leaf(32, 16, 3, 3, 3), padding=1))


def conv2d_dilated():
    F.conv2d(numbers(8, 64, 128, 128), numbers(64, 64, 3, 3), padding=4, dilation=4)


def unfold_backward():
    backward(F.unfold(leaf(8, 32, 128, 128), 3, padding=1))


def max_pool_backward():
    backward(F.max_pool2d(leaf(16, 64, 112, 112), 3, 2, 1))


def avg_pool_backward():
    backward(F.avg_pool2d(leaf(16, 64, 112, 112), 2))


def adaptive_pool_backward():
    backward(F.adaptive_avg_pool2d(leaf(16, 64, 112, 112), 7))


def interpolate_backward():
    backward(F.interpolate(leaf(8, 32, 128, 128), scale_factor=2, mode="bilinear"))


def grid_sample_backward():
    grid = torch.rand(8, 128, 128, 2, device="cuda", requires_grad=True)
    backward(F.grid_sample(leaf(8, 32, 128, 128), grid, align_corners=False))


def pixel_shuffle():
    F.pixel_shuffle(numbers(8, 64, 128, 128), 2)


def pad_reflect_backward():
    backward(F.pad(leaf(8, 32, 128, 128), (3, 3, 3, 3), mode="reflect"))


# normalisation and layers


def layer_norm_backward():
    backward(F.layer_norm(leaf(8192, 1024), (1024,), leaf(1024), leaf(1024)))


def group_norm_backward():
    backward(F.group_norm(leaf(16, 64, 64, 64), 8, leaf(64), leaf(64)))


def batch_norm_backward():
    mean, variance = torch.zeros(64, device="cuda"), torch.ones(64, device="cuda")
    backward(F.batch_norm(leaf(16, 64, 64, 64), mean, variance, leaf(64), leaf(64), training=True))


def rms_norm_backward():
    backward(F.rms_norm(leaf(8192, 1024), (1024,), leaf(1024)))


def instance_norm_backward():
    backward(F.instance_norm(leaf(16, 64, 64, 64)))


def dropout_backward():
    backward(F.dropout(leaf(), 0.1))


def gelu_backward():
    backward(F.gelu(leaf(), approximate="tanh"))


def glu_backward():
    backward(F.glu(leaf(SIDE, N // SIDE)))


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


def nll_2d_backward():
    F.cross_entropy(leaf(8, 21, 128, 128), whole_numbers(21, 8, 128, 128)).backward()


def _attended(backend, *, mask=None, dropout=0.0, dtype=torch.float32, heads=8, length=1024):
    q, k, v = (leaf(2, heads, length, 64, dtype=dtype) for _ in range(3))
    with sdpa_kernel(backend):
        backward(F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout))


def sdpa_math_mask():
    _attended(SDPBackend.MATH, mask=numbers(1024, 1024))


def sdpa_efficient_dropout():
    _attended(SDPBackend.EFFICIENT_ATTENTION, dropout=0.1)


def sdpa_flash_backward():
    _attended(SDPBackend.FLASH_ATTENTION, dtype=torch.float16, length=4000)


# sparse and nested


def sparse_coalesce():
    values = numbers(N // 4)
    torch.sparse_coo_tensor(whole_numbers(SIDE, 2, N // 4), values, (SIDE, SIDE)).coalesce()


def sparse_mm():
    x = torch.sparse_coo_tensor(whole_numbers(SIDE, 2, 100_000), numbers(100_000), (SIDE, SIDE))
    torch.sparse.mm(x, numbers(SIDE, SIDE))


def csr_matmul():
    torch.eye(SIDE, device="cuda").to_sparse_csr() @ numbers(SIDE, SIDE)


def nested_pad():
    rows = [numbers(length, 256) for length in (1000, 3000, 500, 2048)]
    torch.nested.nested_tensor(rows, layout=torch.jagged).to_padded_tensor(0.0)


# random numbers, copies, dtypes


def normal():
    torch.empty(N, device="cuda").normal_()


def bernoulli():
    torch.bernoulli(torch.rand(N, device="cuda"))


def exponential():
    torch.empty(N, device="cuda").exponential_()


def rand_ints():
    torch.randint(0, 10, (N,), device="cuda", dtype=torch.int32)


def to_bf16_and_back():
    numbers().bfloat16().float()


def contiguous_transpose():
    numbers(SIDE, N // SIDE).T.contiguous()


def cat_backward():
    backward(torch.cat([leaf(N // 4) for _ in range(4)]))


def stack_chunks():
    torch.stack(numbers().chunk(8))


def repeat_interleave_backward():
    backward(leaf(SIDE, N // SIDE // 4).repeat_interleave(4, dim=1))


def where_backward():
    x = leaf()
    backward(torch.where(x > 0, x, 0.0))


def roll_flip():
    numbers(SIDE, N // SIDE).roll(3, 1).flip(0)


def complex_product_backward():
    backward(torch.view_as_complex(leaf(N // 2, 2)) * torch.view_as_complex(leaf(N // 2, 2)))


def masked_fill_scalar():
    x = numbers()
    x.masked_fill(x > 0, float("-inf"))


def float64_sum():
    numbers(N, dtype=torch.float64).sum(dtype=torch.float64)


def pinned_copy():
    torch.empty(N, pin_memory=True).to("cuda", non_blocking=True)


def clone_to_host():
    numbers().clone().cpu()


# foreach, autocast, low precision


def foreach_norms():
    torch._foreach_norm([numbers(N // 64) for _ in range(64)])


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
