"""Known and assumed values of tensors on the stand-in's cards."""
