"""Devices that a test body runs on: the stand-in for a card, and a real card, with one contract.

Both let PyTorch's own CUDA code and its caching allocator do the work, and both are recorded by the same
hooks (``real/``). They differ below PyTorch alone: ``stand_in/`` has libraries in place of NVIDIA's.
``choice`` decides before a worker starts; ``torch_build/`` finds the torch that it imports.
"""
