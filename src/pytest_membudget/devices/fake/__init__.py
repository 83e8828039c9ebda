"""A CUDA device that is not there: real PyTorch code, fake tensors, a model of the caching allocator.

For a separate worker process only: installing the device changes torch for the rest of the process.
"""
