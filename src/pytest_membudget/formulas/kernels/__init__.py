"""Device memory that CUDA kernels take for themselves, by shape: for traces and for formulas."""
