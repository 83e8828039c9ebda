"""The session's side: which workers there are, what each is asked, and what a loss costs.

``tracing`` asks for estimates and ``measuring`` for measurements, both by way of ``workers``, the one place
that decides what is sent to whom. A ``worker`` is one process, and an ``order`` all that it is started with;
one may be asked for while the session collects. Nothing here imports torch.
"""
