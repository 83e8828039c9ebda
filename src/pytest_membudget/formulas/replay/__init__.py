"""A step's tensors, one after the other, in the model of the caching allocator: what it reserves."""
