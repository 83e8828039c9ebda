"""Device meshes: tables of real numbers, whatever tensors of the test are."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from torch.distributed import device_mesh

from ..known_values import KnownValues
from ..refusals import refusal

#: What of a mesh makes or reads tensors.
_METHODS = (
    "__init__", "__getitem__", "__repr__", "_get_all_submeshes", "_flatten", "_unflatten", "from_group",
    "_create_sub_mesh", "_create_flatten_mesh", "_create_unflatten_mesh", "_concatenate", "size",
    "_sym_get_coordinate", "get_coordinate", "_compute_coordinate_on_dim", "get_local_rank",
)  # fmt: skip


def install_meshes(known: KnownValues) -> None:
    """Let meshes be made and asked outside the fake tensor mode; ``known`` has the tables that tests make."""
    outside = functools.partial(_outside, known)
    own: Any = device_mesh
    kind: Any = device_mesh.DeviceMesh
    for name in _METHODS:
        found = kind.__dict__.get(name)
        if isinstance(found, staticmethod):
            setattr(kind, name, staticmethod(outside(found.__func__)))
        elif found is not None:
            setattr(kind, name, outside(found))
    table = outside(kind.mesh.fget)
    kind.mesh = property(lambda mesh: _as_tests_own(table(mesh)))
    original = device_mesh.init_device_mesh
    made = outside(original)
    import torch.distributed as dist

    own_dist: Any = dist
    for module in (own, own_dist):
        if getattr(module, "init_device_mesh", None) is original:
            module.init_device_mesh = made


def _as_tests_own(table: torch.Tensor) -> torch.Tensor:
    """``table`` as a fake tensor of known values, where tensors are fake."""
    is_faking = torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE) is not None
    return torch.tensor(table.tolist(), device="cpu", dtype=table.dtype) if is_faking else table


def _outside(known: KnownValues, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def outside(*args: Any, **kwargs: Any) -> Any:
        with unset_fake_temporarily():
            given = [_real(known, value) for value in args]
            named = {name: _real(known, value) for name, value in kwargs.items()}
            return function(*given, **named)

    return outside


def _real(known: KnownValues, value: Any) -> Any:
    if not isinstance(value, FakeTensor):
        return value
    table = known.of(value)
    if table is None:
        raise refusal(
            "a device mesh is made of a tensor whose numbers are not known on the virtual device; write "
            'init_device_mesh("cuda", shape), or a list of the ranks'
        )
    return table.clone()
