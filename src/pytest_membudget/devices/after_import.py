"""Changes to modules of torch that few tests import, made when they are imported."""

import importlib.abc
import importlib.util
import sys
from collections.abc import Callable
from typing import Any


def after_import(name: str, change: Callable[[Any], None]) -> None:
    """Call ``change`` with the module ``name``: now if it is there, else as soon as it is."""
    if name in sys.modules:
        change(sys.modules[name])
    else:
        sys.meta_path.insert(0, _Changing(name, change))


class _Changing(importlib.abc.MetaPathFinder):
    def __init__(self, name: str, change: Callable[[Any], None]) -> None:
        self._name = name
        self._change = change

    def find_spec(self, name: str, path: object, target: object = None) -> Any:
        """The module's own spec, whose loader changes what it has loaded."""
        if name != self._name or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)  # another change to it may follow, around this one
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            execute = loader.exec_module

            def exec_module(module: Any) -> None:
                execute(module)
                self._change(module)

            loader.exec_module = exec_module
        return spec
