"""CUDA that is not there: libraries that answer PyTorch's own CUDA code and do no work.

A worker is started with ``native/`` preloaded: C that answers the CUDA runtime, the driver, cuBLAS, cuDNN,
NCCL and their kin. Allocations, kernel choices and workspaces are then PyTorch's own decisions, and exact;
kernels compute nothing. What code reads back must therefore be known or assumed: ``values/`` for cards,
``host/`` for host tensors too large to compute, ``ranks/`` for what other ranks would send, ``saving/`` for
checkpoints. ``linked/`` writes the libraries that torch links besides. A function that is not modelled
refuses by its name.
"""
