"""Libraries that take the places of NVIDIA's under torch: written into the cache, without a compiler."""
