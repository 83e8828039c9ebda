"""Finds what storages are for: parameters, buffers, gradients, optimizer states, and copies of them."""
