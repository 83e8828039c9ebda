"""What PyTorch's kernels request in addition to operands and results, on the stand-in.

Every figure is recorded, from a public allocator history of a real GPU that is named, or by hand from the
formulas of PyTorch's and CUB's sources. They depend on what the stand-in says of the card: its
multiprocessors and threads, and the code that was compiled for it.
"""

import pytest
import torch
from allocations import requests, without
from torch.nn.attention import SDPBackend, sdpa_kernel

from pytest_membudget.devices.torch_parts import torch_release

aten = torch.ops.aten
F = torch.nn.functional
INT64 = torch.int64
HALF = torch.bfloat16
A100, H100, L4 = "A100-80GB", "H100-80GB", "L4"
#: counters and states of CUB's scans, which no figure here lists
SMALL_BYTES = 2048


def empty(*shape, dtype=torch.float32):
    return torch.empty(shape, dtype=dtype, device="cuda")


def expanded(*shape):
    return empty(1).expand(*shape)


def of(function, *operands, **options):
    return lambda: function(*operands, **options)


def indexing(rows, indices, *shape):
    gradient, values = empty(rows, shape[-1]), empty(*shape)
    return of(aten._index_put_impl_, gradient, [empty(*indices, dtype=INT64)], values, True, True)


def embedding(indices, rows, width):
    gradient = empty(indices, width, dtype=HALF)
    return of(aten.embedding_dense_backward, gradient, empty(indices, dtype=INT64), rows, -1, False)


def heads(batch=1, count=32, rows=2048, width=128, dtype=HALF):
    return empty(batch, rows, count, width, dtype=dtype).transpose(1, 2)


def attention(kernel, query, key=None):
    def run():
        with sdpa_kernel(kernel):
            return F.scaled_dot_product_attention(query, keys, keys, enable_gqa=query.shape != keys.shape)

    keys = query if key is None else key
    return run


def attention_backward(kernel, query, key=None):
    operands = [query.requires_grad_(), (query.detach() if key is None else key).requires_grad_()]
    output = attention(kernel, *operands)()
    return of(torch.autograd.grad, output, operands, torch.empty_like(output))


FLASH, EFFICIENT = SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION
#: A call that is made ready, the sizes of its results, and what it takes in addition.
CALLS = {
    # recorded (silmont2000/assignment2-systems, torch 2.6). 512 threads that load 4 at a time: 1,024 numbers
    # each, split so that each has 16: 64 blocks
    "sum of everything": (lambda: of(aten.sum, empty(8, 4096, 16)), [4], [4 * 64, 4]),
    # recorded 25 times for the 25 norms of 12 layers (MAGMA27/assignment2-systems, torch 2.11)
    "sum over rows": (lambda: of(aten.sum, empty(32, 256, 768), [0, 1]), [4 * 768], [50_331_648, 24]),
    # recorded 49 times for the 49 norms of 24 layers (Wedsonlin/assignment2-systems, torch 2.11)
    "sum over fewer rows": (lambda: of(aten.sum, empty(4, 512, 1024), [0, 1]), [4 * 1024], [16_777_216, 32]),
    # recorded 65 times (kkaitlyn111/cs336-a2-systems). Blocks of 32 x 4 threads, 4 outputs a thread: 4
    # blocks; 640 numbers a thread, split by 40
    "sum of a transposed matrix": (
        lambda: of(aten.sum, empty(2560, 512).t(), [1]),
        [4 * 512],
        [10_485_760, 16],
    ),
    # recorded once (the same history): pairs of 16 bytes
    "maximum with its index": (
        lambda: of(aten.max, empty(10_000, 512).t(), 1),
        [4 * 512, 8 * 512],
        [164_626_432, 16],
    ),
    # 8,192 halves for each of 512 threads: as many blocks as the card has room for, in fp32
    "sum of halves": (lambda: of(aten.sum, empty(2**22, dtype=HALF)), [2], [4 * 4 * 108, 4]),
    # recorded (silmont2000/assignment2-systems): 2,097,152 bytes in each product with a sum's gradient
    "product with an expanded gradient": (
        lambda: of(aten.bmm, expanded(8, 4096, 16), empty(8, 16, 4096)),
        [4 * 8 * 4096 * 4096],
        [2_097_152, 8_519_680],
    ),
    # 2**20 fp32 keys with 8-byte values: 384 threads x 8; 342 tiles, four passes
    "sort of one row": (
        lambda: of(aten.sort, empty(2**20)),
        [4 * 2**20, 8 * 2**20],
        [8 * 2**20, 4 * 256 * 8 + 342 * 1024 + (4 + 8) * 2**20 + 256 + 255],
    ),
    # sorted by 10 bits, in two passes over 5 tiles; then summed in groups of ten: 1,638 whole ones, and one
    # begun for each row
    "embedding's backward": (
        lambda: embedding(16_384, 1000, 64),
        [2 * 1000 * 64],
        [
            *5 * [8 * 16_384],
            # the bins of each pass; torch 2.11 sorts by all 64 bits
            (2 if torch_release() >= (2, 13) else 8) * 256 * 8 + 5 * 1024 + 2 * 8 * 16_384 + 256 + 255,
            8 * 1000,
            8 * 1000,
            8 * 2638,
            4 * 2638 * 64,
        ],
    ),
    # split over the keys by 16 (num_splits_heuristic, csrc/flash_attn of pytorch/pytorch)
    "flash attention of one query": (
        lambda: attention(FLASH, heads(count=8, rows=1), heads(count=8, rows=4096)),
        [2 * 8 * 128, 4 * 8],
        [4 * 16 * 8, 4 * 16 * 8 * 128],
    ),
    # a workspace of 8,396,800 bytes is recorded on a real GPU; a product, and its sums in two orders
    "memory-efficient attention's backward": (
        lambda: attention_backward(EFFICIENT, heads(1, 32, 1000, 64, torch.float32)),
        3 * [4 * 32 * 1000 * 64],
        [4 * 32 * 1000, 4 * 32 * 1000, 4 * 32 * 1000 * 64, 8_396_800],
    ),
}


def requested(name):
    return requests(CALLS[name][0]())


@pytest.mark.parametrize("name", CALLS)
def test_a_call_takes_its_results_and_these(stand_in, name):
    _, results, temporaries = CALLS[name]

    rest = without(stand_in(requested, name), *results, *temporaries)

    assert [size for size in rest if size > SMALL_BYTES] == []


def has_own_code():
    """Over 3,072 indices are sorted by CUB (embedding_dense_backward_cuda, native/cuda/Embedding.cu)."""
    table = torch.nn.Embedding(32_000, 16, device="cuda")
    table(torch.randint(0, 32_000, (4, 2048), device="cuda")).sum().backward()
    major, minor = torch.cuda.get_device_capability()
    return f"sm_{major}{minor}" in torch.cuda.get_arch_list()


@pytest.mark.parametrize(("gpu", "expected"), [(L4, False), ("A6000", True), (H100, True)])
def test_cards_that_nothing_was_compiled_for_sort_by_the_code_that_they_can_load(stand_in, gpu, expected):
    """PyTorch's wheels have no code for 8.9 (torch.cuda.get_arch_list()): such a card runs what 8.6 has.

    CUB has tunings for what was compiled alone.
    """
    assert stand_in(has_own_code, gpu=gpu) is expected
