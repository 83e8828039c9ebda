"""How many elements of a sparse tensor are left where several had the same place: a kernel copies it."""

import math
from typing import Any

import torch

from ....caveats import WORST_CASE
from ....results.varied import BOUNDS
from ...real.kernels import Kernel, kernel_of
from .answers import Answers
from .reads import Reads
from .variants import VARIANT

COALESCE = "aten::_coalesce"
_KEY = torch._C.DispatchKey.SparseCUDA
_SPARSE = torch._C.DispatchKeySet(_KEY)


def coalescing(answers: Answers, reads: Reads) -> Kernel:
    """The kernel of ``COALESCE`` for sparse tensors of CUDA, given the largest number there can be.

    It copies one number, and none where there are fewer than two elements (``_coalesce_sparse_cuda``,
    ATen/native/sparse/cuda/SparseCUDATensor.cu, 2.11 to 2.15).
    """
    kernel = kernel_of(COALESCE, _KEY.name)

    def run(sparse: torch.Tensor) -> Any:
        if sparse._nnz() < 2:
            return kernel(_SPARSE, sparse)
        count = VARIANT.share(most_elements(sparse._nnz(), sparse.shape[: sparse.sparse_dim()]))
        reads.list_assumed(torch.int64, count, WORST_CASE)
        VARIANT.unknown.add(BOUNDS)
        answers.give(count.to_bytes(8, "little"))
        try:
            return kernel(_SPARSE, sparse)
        finally:
            answers.drop()

    return run


def most_elements(count: int, places: torch.Size) -> int:
    """Of ``count`` elements those that are left where none shares its place, and there is one for each."""
    return min(count, math.prod(places))
