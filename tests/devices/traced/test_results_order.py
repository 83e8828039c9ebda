"""In which order an operator takes its results' memory: free blocks fit them otherwise."""

import torch
import torch.nn.functional as F

MIB = 2**20


def dropped_out():
    x = torch.empty(10 * MIB, dtype=torch.float16, device="cuda")
    free = torch.empty_like(x)
    del free
    return F.dropout(x, 0.5).nbytes


def test_dropout_takes_its_mask_before_its_result(trace):
    # dropout_cuda in aten/src/ATen/native/cuda/Dropout.cu: the mask of 10 MiB splits the free block of 20, so
    # that the result finds none; the other way round the mask would be the one to need a segment, of 10
    assert trace(dropped_out).report.peak.reserved_bytes == (20 + 20 + 20) * MIB
