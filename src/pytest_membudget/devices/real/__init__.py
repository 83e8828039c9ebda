"""The real device: a test runs there, its peaks are the allocator's own, its components seen beside."""
