"""Which installed files are the project's own: by what installers have written (PEP 610)."""

import json

import pytest

from pytest_membudget.tracking.running_code.own_files import own_files
from pytest_membudget.tracking.running_code.source import SourceFinder

#: What an installer was given, with {root} for the project's folder, by who calls it.
OWN = {
    "pip_in_the_checkout": {"url": "file://{root}", "dir_info": {}},
    "tox": {"url": "file://{root}/.tox/.pkg/dist/net-0.1.tar.gz", "archive_info": {}},
    "a_build_before_it": {"url": "file://{root}/dist%20new/net-0.1-py3-none-any.whl"},
}
OTHERS = {
    "conda": {"url": "file:///croot/net_1700/work", "dir_info": {}},
    "a_folder_beside_it": {"url": "file://{root}-two", "dir_info": {}},
    "git": {"url": "https://github.com{root}/net.git", "vcs_info": {"vcs": "git", "commit_id": "1"}},
    "no_object": [],
    "no_text": {"url": 3},
}
RECORD = 'net/__init__.py,sha256=1,2\r\n"net/a,b.py",,\r\n../../bin/net,,\r\n'


@pytest.fixture
def packages(tmp_path):
    def install(origin):
        folder = tmp_path / "lib" / "site-packages"
        metadata = folder / "net-0.1.dist-info"
        metadata.mkdir(parents=True)
        metadata.joinpath("RECORD").write_text(RECORD)
        text = json.dumps(origin).replace("{root}", str(tmp_path / "project"))
        metadata.joinpath("direct_url.json").write_text(text)
        return str(folder)

    return install


@pytest.mark.parametrize("name", OWN)
def test_they_are_those_of_what_was_installed_from_the_project(packages, tmp_path, name):
    folder = packages(OWN[name])
    found = {*own_files(["/none", folder], str(tmp_path / "project"))}

    assert found >= {f"{folder}/net/__init__.py", f"{folder}/net/a,b.py"}
    assert SourceFinder([], "/usr/lib/python3.12", found).is_users(f"{folder}/net/__init__.py")
    assert not SourceFinder([], "/usr/lib/python3.12", found).is_users(f"{folder}/net/more.py")


@pytest.mark.parametrize("name", OTHERS)
def test_what_came_from_elsewhere_is_a_librarys(packages, tmp_path, name):
    assert [*own_files([packages(OTHERS[name])], str(tmp_path / "project"))] == []


def test_without_a_record_there_are_none(packages, tmp_path):
    folder = packages(OWN["tox"])
    tmp_path.joinpath("lib/site-packages/net-0.1.dist-info/RECORD").unlink()

    assert [*own_files([folder], str(tmp_path / "project"))] == []


def test_of_a_record_that_cannot_be_read_neither(packages, tmp_path):
    folder = packages(OWN["tox"])
    tmp_path.joinpath("lib/site-packages/net-0.1.dist-info/RECORD").write_bytes(b"net/\xff.py,,")

    assert [*own_files([folder], str(tmp_path / "project"))] == []
