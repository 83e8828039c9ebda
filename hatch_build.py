"""Compiles the stand-in's libraries into the wheel, for machines without a C compiler.

Where the wheel is built without one it is a pure wheel, and the libraries are built at first use.
"""

import importlib.util
import os
import platform
import sys
import tempfile
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_PACKAGE = "pytest_membudget/devices/stand_in"


class CustomBuildHook(BuildHookInterface):
    """Adds the libraries to a wheel, which then is one for this platform."""

    PLUGIN_NAME = "custom"

    def initialize(self, version, build_data):
        """Compile, unless the wheel is an editable one: that finds its sources and builds from them."""
        if self.target_name != "wheel" or version == "editable" or not sys.platform.startswith("linux"):
            return
        compiling = _compiling(Path(self.root))
        if platform.machine() not in compiling.MACHINES:
            return
        self._folder = tempfile.TemporaryDirectory(prefix="membudget-stand-in-")
        folder = Path(self._folder.name)
        try:
            compiling.compile_libraries(compiling.find_compiler(os.environ), folder)
        except (compiling.CannotBuild, OSError) as error:
            self.app.display_warning(f"a wheel without the stand-in's libraries: {error}")
            return
        for name in (compiling.LIBRARY, *compiling.NAMED):
            build_data["force_include"][str(folder / name)] = f"{_PACKAGE}/built/{name}"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-linux_{platform.machine()}"

    def finalize(self, version, build_data, artifact_path):
        """The wheel has the libraries: their folder can go."""
        folder = getattr(self, "_folder", None)
        if folder is not None:
            folder.cleanup()


def _compiling(root):
    """The module that compiles; the package itself needs pytest, which is not there to build a wheel."""
    path = root / "src" / _PACKAGE / "compiling.py"
    spec = importlib.util.spec_from_file_location("membudget_compiling", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
