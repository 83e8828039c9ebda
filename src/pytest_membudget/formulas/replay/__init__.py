"""A step's tensors, one after the other, fitted into memory as PyTorch does: what it reserves."""
