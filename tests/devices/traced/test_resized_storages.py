"""Storages that are given another size: the new block is there before the old one goes.

``resize_bytes_cuda`` in aten/src/ATen/native/cuda/Resize.cpp (pytorch/pytorch).
"""

import torch

MIB = 2**20


def grown():
    tensor = torch.empty(MIB, device="cuda")  # fp32: 4 MiB
    tensor.resize_(4 * MIB)


def test_both_sizes_are_there_while_a_tensor_grows(trace):
    assert trace(grown).allocated == (4 + 16) * MIB


def grown_and_more():
    tensor = torch.empty(MIB, device="cuda")
    tensor.resize_(4 * MIB)
    more = torch.empty(3 * MIB, device="cuda")
    del tensor, more


def test_the_new_size_stays_and_the_old_one_does_not(trace):
    assert trace(grown_and_more).allocated == (16 + 12) * MIB


def shrunk():
    tensor = torch.empty(4 * MIB, device="cuda")
    tensor.untyped_storage().resize_(4 * MIB)
    more = torch.empty(6 * MIB, device="cuda")
    del tensor, more


def test_a_storage_that_shrinks_gives_the_rest_back(trace):
    # 16 and 4 while it shrinks, then 4 and 24
    assert trace(shrunk).allocated == (4 + 24) * MIB
