"""For tests of data that nobody knows: such data, shapes of what is made of it, and lines as in a report."""

from pathlib import Path

import torch


def unknown(*shape):
    return torch.randn(*shape, device="cuda")


def shapes_of(value):
    if isinstance(value, (list, tuple)):
        return [shapes_of(one) for one in value]
    return list(value.shape)


def here(body, line=1):
    """The line of ``body``, counted from its first one or decorator, as in a report."""
    code = body.__code__
    return f"{Path(code.co_filename).name}:{code.co_firstlineno + line}"
