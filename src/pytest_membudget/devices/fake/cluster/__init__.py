"""The virtual cluster: the test's process is one rank of many, through PyTorch's own parallel code."""
