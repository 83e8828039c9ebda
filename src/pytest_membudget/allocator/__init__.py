"""What the events of PyTorch's CUDA caching allocator say: settings, rounding, and memory by address.

The allocator itself decides where a block lies, and its history has the address: nothing here chooses one.
``BlockMap`` follows which memory is reserved, which of it is free, and how large the block at an address is.
An event has the requested size alone; the block's follows from the free memory that began there and from the
rules by which PyTorch rounds requests and splits blocks. No torch.
"""
