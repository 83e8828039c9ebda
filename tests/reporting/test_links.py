"""Links to lines at the report's commit, on the hosts that are known by their jobs' environment."""

import pytest

from pytest_membudget.reporting.links import links_of

HEAD = "0123456789abcdef0123456789abcdef01234567"
GITHUB = {
    "GITHUB_SERVER_URL": "https://github.com",
    "GITHUB_REPOSITORY": "ada/project",
    "GITHUB_SHA": "f" * 40,
}
GITLAB = {"CI_PROJECT_URL": "https://gitlab.com/ada/project", "CI_COMMIT_SHA": "f" * 40}


@pytest.fixture
def url(document):
    """``url(location, environment)`` in a report whose commit has ``pkg/model.py`` and ``pkg/a (1).py``."""

    def made(location, environment, files=None, head=HEAD):
        known = {"model.py": "pkg/model.py", "a (1).py": "pkg/a (1).py"} if files is None else files
        return links_of(document(git={"commit": head, "files": known}), environment).url(location)

    return made


@pytest.mark.parametrize(
    ("environment", "start"),
    [
        (GITHUB, f"https://github.com/ada/project/blob/{HEAD}/"),
        (GITLAB, f"https://gitlab.com/ada/project/-/blob/{HEAD}/"),
    ],
    ids=["github", "gitlab"],
)
def test_a_line_is_linked_at_the_commit_of_the_report(url, environment, start):
    """A job that comments runs at another commit than the one of the report."""
    assert url("model.py:41", environment) == f"{start}pkg/model.py#L41"
    assert url("a (1).py:3", environment) == f"{start}pkg/a%20%281%29.py#L3"


@pytest.mark.parametrize("location", ["torch/nn/linear.py:3", "model.py", None, "/model.py:1"])
def test_a_line_that_is_in_no_file_of_the_commit_has_no_link(url, location):
    assert url(location, GITHUB) == ""


def test_without_a_host_or_a_commit_there_is_no_link(url):
    assert url("model.py:41", {}) == ""
    assert url("model.py:41", {**GITHUB, "GITHUB_REPOSITORY": ""}) == ""
    assert url("model.py:41", GITHUB, head="main") == ""


def test_a_report_of_somebody_else_leads_nowhere_else(url):
    assert url("model.py:41", GITHUB, files={"model.py": "../../../evil/x/blob/main/model.py"}) == ""
    assert url("model.py:41", GITHUB, files={"model.py": 'a?x=")<b>.py'}).endswith(
        "/a%3Fx%3D%22%29%3Cb%3E.py#L41"
    )
