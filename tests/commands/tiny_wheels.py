"""Wheels of a few hundred bytes that have the names, versions and requirements of torch's."""

import base64
import hashlib
import sysconfig
import zipfile

from packaging.tags import sys_tags

TAG = str(next(sys_tags()))
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
REQUIRES = (
    "filelock",
    'nvidia-cudnn-cu13==9.20.0.48; platform_system == "Linux"',
    'nvidia-nccl-cu13==2.29.7; platform_system == "Linux"',
    'triton==3.7.1; platform_system == "Linux"',
)


def write_wheel(folder, name, version, files, requires=(), tag=TAG):
    """A wheel in ``folder`` with ``files``, from paths to texts."""
    stem = f"{name.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    lines = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {one}" for one in requires)]
    content = {
        **files,
        f"{info}/METADATA": "\n".join(["Metadata-Version: 2.1", *lines, ""]),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n",
    }
    rows = [f"{path},sha256={digest(text)},{len(text)}\n" for path, text in content.items()]
    content[f"{info}/RECORD"] = "".join([*rows, f"{info}/RECORD,,\n"])
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{stem}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as file:
        for place, text in content.items():
            file.writestr(place, text)
    return path


def digest(text):
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


def write_torch(folder, version="2.13.0", cuda="13.0", tag=TAG):
    local = "" if "+" in version else "+cu130" if cuda else "+cpu"
    files = {
        "torch/__init__.py": "raise ImportError('of a few bytes')\n",
        "torch/version.py": f"__version__ = {version + local!r}\ncuda = {cuda!r}\nhip = None\n",
        f"torch/_C{SUFFIX}": "ELF",
        "torch/lib/libtorch_cuda.so": "ELF",
        "torchgen/__init__.py": "",
    }
    return write_wheel(folder, "torch", version, files, REQUIRES, tag)


def write_others(folder):
    """cuDNN in the version that torch requires and a newer one, Triton, and both builds of torchvision."""
    for version in ("9.20.0.48", "9.27.0.1"):
        write_wheel(folder, "nvidia-cudnn-cu13", version, {"nvidia/cudnn/lib/libcudnn.so.9": version})
    write_wheel(folder, "triton", "3.7.1", {"triton/__init__.py": ""})
    write_wheel(folder, "torchvision", "0.28.0", {"torchvision/_C.so": "CUDA"})
    write_wheel(folder, "torchvision", "0.28.0+cpu", {"torchvision/_C.so": "CPU"})
