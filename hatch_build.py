"""Compiles the stand-in's libraries into the wheel, for machines without a C compiler.

Where the wheel is built without one it is a pure wheel, and the libraries are built at first use.
"""

import os
import platform
import sys
import tempfile
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_PACKAGE = "pytest_membudget/devices/stand_in"
#: The oldest release of glibc that a wheel may be tagged with here: that of manylinux2014.
_OLDEST_GLIBC = (2, 17)
#: The variable that names the machine that the compiler compiles for, if it is another one.
_MACHINE = "WHEEL_MACHINE"


class CustomBuildHook(BuildHookInterface):
    """Adds the libraries to a wheel, which then is one for this platform."""

    PLUGIN_NAME = "custom"

    def initialize(self, version, build_data):
        """Compile, unless the wheel is an editable one: that finds its sources and builds from them."""
        if self.target_name != "wheel" or version == "editable" or not sys.platform.startswith("linux"):
            return
        sys.path.insert(0, str(Path(self.root, "src")))  # these modules import nothing that is not Python's
        from pytest_membudget.devices.stand_in import compiling

        machine = os.environ.get(_MACHINE) or platform.machine()
        if machine not in compiling.MACHINES:
            return
        self._folder = tempfile.TemporaryDirectory(prefix="membudget-stand-in-")
        folder = Path(self._folder.name)
        try:
            compiling.compile_libraries(compiling.find_compiler(os.environ), folder)
        except (compiling.CannotBuild, OSError) as error:
            self.app.display_warning(f"a wheel without the stand-in's libraries: {error}")
            return
        names = (compiling.LIBRARY, *compiling.NAMED)
        for name in names:
            build_data["force_include"][str(folder / name)] = f"{_PACKAGE}/built/{name}"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{_platform_tag([folder / name for name in names], machine)}"

    def finalize(self, version, build_data, artifact_path):
        """The wheel has the libraries: their folder can go."""
        folder = getattr(self, "_folder", None)
        if folder is not None:
            folder.cleanup()


def _platform_tag(libraries, machine):
    """PEP 600's tag: by the newest symbol of glibc that one of them needs."""
    from pytest_membudget.devices.stand_in.linked.elf_reader import read_shared_object

    needed = [
        tuple(map(int, version.removeprefix("GLIBC_").split(".")[:2]))
        for library in libraries
        for versions in read_shared_object(library).needed_versions.values()
        for version in versions
        if version.startswith("GLIBC_2.")
    ]
    major, minor = max([_OLDEST_GLIBC, *needed])
    return f"manylinux_{major}_{minor}_{machine}"
