"""The same work on the stand-in and on fake tensors, compared: ``python -m benchmarks.parity``."""
