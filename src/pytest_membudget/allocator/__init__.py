"""A model of PyTorch's CUDA caching allocator: which bytes a sequence of requests would hold.

Pure Python, no torch: requests go in, addresses and the counters of ``torch.cuda.memory_stats`` come out.
"""
