"""Tensors on the host while the card is the stand-in: counted, and not computed where they are large.

Large host memory is address space without pages (``hollow``): operators on it give results of the right
shape that are hollow too. Every block of the CPU allocator and of pinned memory is an event with its place,
and ``run`` makes the host's part of the report of them.
"""
