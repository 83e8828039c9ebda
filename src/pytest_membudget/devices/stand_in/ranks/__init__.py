"""One rank of many on the stand-in: PyTorch's own process groups, whose other ranks are not there."""
