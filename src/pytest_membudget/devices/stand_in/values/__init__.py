"""Known and assumed values of tensors on the stand-in's cards.

Small integer tensors are computed for real after each kernel, on the host (``kernels``), so that indices,
masks and lengths are what a GPU would have. What is read and not known is assumed, by a rule with its
reason (``reads``, ``unknown_shapes``, ``routing``), listed with its line, and what ``assume`` says comes
first.
"""
