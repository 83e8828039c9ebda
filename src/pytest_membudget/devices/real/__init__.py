"""The real device: peaks measured by PyTorch's allocator, components from hooks and its history."""
