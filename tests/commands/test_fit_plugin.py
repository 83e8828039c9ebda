"""The plugin that gives a test its values: which values the bodies see, and which tests are refused."""

import pytest

from pytest_membudget.commands import fit_plugin
from pytest_membudget.commands.fit_search import Point, Variation

TESTS = """
import pytest

@pytest.fixture
def plain():
    return 8

@pytest.fixture(scope="session")
def wide():
    return 8

@pytest.fixture(scope="session")
def batch(wide):
    return [0] * wide

@pytest.fixture(params=[1, 2])
def listed(request):
    return "x" * request.param

def test_plain(plain):
    print("saw", plain)

def test_wide(batch):
    print("saw", len(batch))

def test_listed(listed):
    print("saw", len(listed))

@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("kind", ["a", "b"])
def test_marked(size, kind):
    print("saw", size, kind)
"""
CARDS = "import pytest\n\n@pytest.hookimpl(trylast=True)\ndef pytest_collection_finish(session):\n"
CARDS += (
    "    for item in session.items:\n        print('mark', item.get_closest_marker('mem_budget').kwargs)\n"
)


@pytest.fixture
def session(pytester, monkeypatch):
    """``session("test_plain", "plain", 3, 5)``: the lines of a session without the gate, where bodies run."""

    def run(test, name, *values, variant=""):
        varied = Variation(name, variant, [Point(value, "RTX-4090") for value in values])
        for key, text in varied.variables().items():
            monkeypatch.setenv(key, text)
        pytester.makepyfile(test_it=TESTS)
        pytester.makeconftest(CARDS)
        plugins = ("-p", "no:membudget", "-p", fit_plugin.__name__, "-p", "no:cacheprovider")
        return pytester.runpytest_inprocess(*plugins, "-s", "-v", f"test_it.py::{test}")

    return run


def seen(result):
    return [line.partition("saw ")[2] for line in result.outlines if "saw " in line]


@pytest.mark.parametrize(
    ("test", "name"), [("test_plain", "plain"), ("test_wide", "wide"), ("test_listed", "listed")]
)
def test_a_fixture_has_each_value(session, test, name):
    result = session(test, name, 3, 5)

    assert seen(result) == ["3", "5"]
    result.stdout.fnmatch_lines([f"*::{test}[[]*-3@RTX-4090]*", f"*::{test}[[]*-5@RTX-4090]*"])


def test_a_parameter_has_each_value_in_the_variant_that_is_named(session):
    result = session("test_marked", "size", 3, 5, variant="b-1")

    assert seen(result) == ["3 b", "5 b"]


def test_the_budget_is_what_the_card_can_hold_whatever_the_mark_says(session):
    [line] = [line for line in session("test_plain", "plain", 3).outlines if line.startswith("mark")]

    assert "'gpu': 'RTX-4090'" in line
    assert "'gib': None" in line


@pytest.mark.parametrize(
    ("test", "name", "message"),
    [
        ("test_plain", "size", "ERROR: the test has no parameter or fixture 'size'; it has plain"),
        ("test_marked", "size", "ERROR: these are several tests; name one of them: *marked[[]a-1]*[[]b-1]"),
    ],
)
def test_what_cannot_be_varied_is_refused(session, test, name, message):
    result = session(test, name, 3)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"{message}*"])
