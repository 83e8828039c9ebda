"""The builds of torch at hand: the environment's own, and a CUDA build for workers alone."""
