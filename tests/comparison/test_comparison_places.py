"""Paths of the head's checkout as those of the base's, and modules that came from the wrong one."""

import os
import sys
from types import ModuleType, SimpleNamespace

import pytest

from pytest_membudget.comparison import places as module
from pytest_membudget.comparison.places import CheckoutPaths, foreign_modules, import_roots, is_installed


@pytest.fixture
def head(tmp_path):
    folder = tmp_path / "head"
    folder.mkdir()
    return folder


@pytest.fixture
def places(head):
    return CheckoutPaths(str(head), "/base")


def loaded(name, file):
    made = ModuleType(name)
    made.__file__ = str(file) if file is not None else None
    return {name: made}


def test_what_is_in_the_checkout_is_at_the_base(places, head):
    assert places.at_base(str(head)) == "/base"
    assert places.at_base(str(head / "src" / "a.py")) == "/base/src/a.py"


def test_what_is_elsewhere_stays(places, head):
    for path in ("/usr/lib/python3", f"{head}-other/src", str(head / ".venv/lib/site-packages")):
        assert places.at_base(path) == path


def test_a_link_to_the_checkout_is_the_checkout(places, head, tmp_path):
    (tmp_path / "link").symlink_to(head)
    assert places.at_base(str(tmp_path / "link" / "src")) == "/base/src"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("{head}", "/base"),
        ("{head}/tests/test_a.py::test_b", "/base/tests/test_a.py::test_b"),
        ("--rootdir={head}/tests", "--rootdir=/base/tests"),
        ("tests/test_a.py", "tests/test_a.py"),
        ("{head}-other/test_a.py", "{head}-other/test_a.py"),
    ],
)
def test_absolute_paths_in_arguments_are_those_of_the_base(places, head, written, meant):
    assert places.argument(written.format(head=head)) == meant.format(head=head)


def test_the_import_path_is_that_of_the_base_with_roots_that_nobody_names(places, head):
    path = places.import_path([str(head), "/usr/lib/python3"], [str(head), str(head / "src")])
    assert path == ["/base/src", "/base", "/usr/lib/python3"]


def test_roots_are_where_top_level_modules_lie(head):
    modules = {
        **loaded("pkg", head / "src" / "pkg" / "__init__.py"),
        **loaded("pkg.deep", head / "src" / "pkg" / "deep.py"),
        **loaded("single", head / "lib" / "single.py"),
        **loaded("json", os.__file__),
        **loaded("builtin", None),
    }
    assert import_roots(modules, str(head)) == [str(head / "src"), str(head / "lib")]


def test_an_editable_installation_has_its_roots_before_it_is_imported(head):
    finder = SimpleNamespace(MAPPING={"pkg": str(head / "python" / "pkg"), "other": "/elsewhere/other"})
    assert import_roots({"__editable___pkg_1_0_finder": finder}, str(head)) == [str(head / "python")]


def test_modules_of_the_heads_checkout_are_foreign(head):
    base = head / "temporary" / "base"
    modules = {
        **loaded("wrong", head / "wrong.py"),
        **loaded("right", base / "right.py"),
        **loaded("installed", head / ".venv" / "lib" / "site-packages" / "x.py"),
        **loaded("relative", "_ops.py"),
        **loaded("json", os.__file__),
    }
    assert foreign_modules(modules, str(head), str(base)) == {"wrong": str(head / "wrong.py")}


def test_this_package_is_the_tool_wherever_it_lies():
    root = str(module._OURS)
    assert (
        foreign_modules(dict(sys.modules), root, "/nowhere")
        .keys()
        .isdisjoint(name for name in sys.modules if name.startswith("pytest_membudget"))
    )


def test_a_checkout_inside_of_pythons_own_folder_is_not_installed(monkeypatch, tmp_path):
    """As /usr/src/app is in /usr."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path))
    head = tmp_path / "src" / "app"
    assert not is_installed(str(head / "a.py"), str(head))


def test_an_environment_inside_of_the_checkout_is_installed(monkeypatch, head):
    monkeypatch.setattr(sys, "prefix", str(head / "env"))
    assert is_installed(str(head / "env" / "bin"), str(head))


def test_another_environment_sees_the_checkout_and_nothing_else_of_the_import_path(head):
    entries = ["/usr/lib/python3", str(head / "src"), str(head / ".venv/lib/site-packages"), str(head)]

    found = module.checkout_path(entries, [str(head / "lib"), str(head)], str(head))

    assert found == [str(head / "lib"), str(head / "src"), str(head)]
