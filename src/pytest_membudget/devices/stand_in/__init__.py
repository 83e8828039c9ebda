"""CUDA that is not there: libraries that answer PyTorch's own CUDA code and do no work."""
