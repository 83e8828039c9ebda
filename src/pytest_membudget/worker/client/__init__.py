"""The session's side: which workers there are, what each is asked, and what a loss costs.

``tracing`` asks for estimates and ``measuring`` for measurements, both by way of ``workers``, the one place
that sends requests and reads answers. An ``order`` is all that a worker is started with. Nothing here
imports torch.
"""
