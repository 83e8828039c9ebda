"""The user's source line that is running."""

import sys

import pytest

from pytest_membudget.tracking.running_code.source import SourceFinder, shown_path

STANDARD_LIBRARY = "/usr/lib/python3.12"


def caller_in(filename, line=1):
    """A function at ``line`` of ``filename`` that calls its argument; the file need not exist."""
    names = {}
    exec(compile("\n" * (line - 1) + "def call(function): return function()", filename, "exec"), names)
    return names["call"]


def place_through(finder, *callers):
    """What ``finder`` finds below ``callers``, the outermost first: file and line."""

    def innermost():
        return finder.find(depth=2)  # the frame that called this one

    function = innermost
    for caller in reversed(callers):
        function = _bound(caller, function)
    return function()


def _bound(caller, function):
    return lambda: caller(function)


@pytest.fixture
def finder():
    # this file is hidden too, so that only the made-up callers can be found
    hidden = ["/usr/lib/python3.12/site-packages/torch", "/src/pytest", __file__.rpartition("/")[0]]
    return SourceFinder(hidden, STANDARD_LIBRARY)


@pytest.mark.parametrize(
    "filename",
    [
        "/usr/lib/python3.12/site-packages/torch/nn/modules/linear.py",
        "/src/pytest/python.py",
        "/usr/lib/python3.12/contextlib.py",
        "<string>",
        "<frozen importlib._bootstrap>",
        f"/tmp/torchinductor_ada/tr/ctr{'7' * 49}.py",
    ],
)
def test_frames_that_are_not_the_users_are_passed_over(finder, filename):
    user = caller_in("/home/ada/project/model.py", line=7)
    assert place_through(finder, user, caller_in(filename)) == ("/home/ada/project/model.py", 7)


@pytest.mark.parametrize(
    "filename",
    [
        "/usr/lib/python3.12/site-packages/transformers/modeling.py",
        "/usr/lib/python3.12/dist-packages/transformers/modeling.py",
        "/usr/lib/python3.12/site-packages/torchvision/models/vit.py",
        "/src/pytest_plugins/steps.py",
        "/usr/lib/python3.12-models/model.py",
        "/home/ada/project/layers.py",
    ],
)
def test_the_innermost_is_found_in_a_model_library_too_whatever_folder_it_lies_in(finder, filename):
    user = caller_in("/home/ada/project/model.py")
    assert place_through(finder, user, caller_in(filename, line=9)) == (filename, 9)


def test_where_no_frame_is_the_users_nothing_is_found():
    assert SourceFinder(["/"], STANDARD_LIBRARY).find() == (None, 0)


def test_the_nearest_depth_is_the_caller_itself():
    file, line = SourceFinder([], STANDARD_LIBRARY).find()
    assert file == __file__
    assert line == sys._getframe().f_code.co_firstlineno + 1


def test_a_line_is_found_anew_each_time_though_its_code_is_known():
    finder = SourceFinder([], STANDARD_LIBRARY)
    first = finder.find()
    second = finder.find()
    assert first[0] == second[0]
    assert second[1] == first[1] + 1


# Paths in reports


@pytest.mark.parametrize(
    ("filename", "shown"),
    [
        ("/home/ada/project/src/model.py", "src/model.py"),
        ("/home/ada/project/model.py", "model.py"),
        ("/home/ada/other/model.py", "/home/ada/other/model.py"),
        ("/home/ada/project-two/model.py", "/home/ada/project-two/model.py"),
        ("/usr/lib/python3.12/site-packages/pkg/model.py", "pkg/model.py"),
        ("/usr/lib/python3/dist-packages/pkg/model.py", "pkg/model.py"),
        ("/home/ada/project/.venv/lib/python3.12/site-packages/pkg/model.py", "pkg/model.py"),
    ],
)
def test_a_path_is_shown_from_the_root_or_from_the_name_of_an_installed_package_on(filename, shown):
    assert shown_path(filename, "/home/ada/project") == shown


def test_code_that_cannot_be_hashed_is_found(finder):
    """Dynamo leaves dictionaries among a frame's constants."""
    user = caller_in("/home/ada/project/model.py", line=41)
    user.__code__ = user.__code__.replace(co_consts=({},))

    assert place_through(finder, user) == ("/home/ada/project/model.py", 41)
