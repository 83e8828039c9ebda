"""The models that the examples train, in plain PyTorch."""
