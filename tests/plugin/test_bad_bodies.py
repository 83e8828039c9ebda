"""Bodies and items as nobody should write them: each says so, and none is lost, hangs or turns green."""

import os
import re

import bad_bodies
import pytest

MIB = 2**20

ITEMS = """
    import unittest

    import pytest
    import torch

    budget = pytest.mark.mem_budget(gib=16 / 1024)
    ODD = ["\\u2603/\\\\:*?<>|", "é" * 5000, "x" * 10240, "\\ud800", "two\\nlines", "..", "CON", "",
        "a/b", "A/b", "with space"]


    def hold(mib):
        return torch.empty(mib * 2**20, dtype=torch.uint8, device="cuda")


    @budget
    @pytest.mark.parametrize("number", range(11), ids=ODD)
    def test_odd_name(number):
        kept = hold(8)


    @pytest.fixture(scope="session", params=[4, 8])
    def held(request):
        kept = hold(request.param)
        yield kept
        del kept


    @budget
    def test_held_for_the_session(held):
        pass


    @pytest.fixture
    def broken():
        raise RuntimeError("no such file")


    @pytest.fixture
    def broken_later():
        yield
        raise RuntimeError("no such folder")


    @budget
    def test_fixture_fails(broken):
        pass


    @budget
    def test_teardown_fails(broken_later):
        kept = hold(8)


    @budget
    def test_fixture_is_unknown(brokken):
        pass


    @budget
    async def test_coroutine():
        kept = hold(8)


    class TestOfUnittest(unittest.TestCase):
        @budget
        @unittest.expectedFailure
        def test_expected_to_fail(self):
            raise ValueError


    class TestOfUnittestThatFails(unittest.TestCase):
        @classmethod
        def setUpClass(cls):
            raise RuntimeError("no class")

        @budget
        def test_class_fails(self):
            pass
    """
CONFTEST = """
    import pytest

    class Thing(pytest.Item):
        def runtest(self):
            import torch

            kept = torch.empty(2**21, device="cuda" if self.name == "held" else "cpu")

        def repr_failure(self, excinfo):
            return excinfo.value.lines_of_the_thing

    class ThingFile(pytest.File):
        def collect(self):
            return [Thing.from_parent(self, name=name) for name in ("held", "not held")]

    def pytest_collect_file(parent, file_path):
        return ThingFile.from_parent(parent, path=file_path) if file_path.suffix == ".thing" else None

    def pytest_collection_modifyitems(items):
        for item in items:
            if item.path.suffix in (".thing", ".rst"):
                item.add_marker(pytest.mark.mem_budget(gib=1))
    """
DOCTEST = """
    >>> import torch
    >>> kept = torch.empty(2**21, device="cuda")
    >>> 1 + 1
    """


FILES = {
    "conftest.py": CONFTEST,
    "test_bodies.py": bad_bodies.source(),
    "test_items.py": ITEMS,
    "some.thing": "",
    "good.rst": f"{DOCTEST}2\n",
    "bad.rst": f"{DOCTEST}3\n",
    "pyproject.toml": "[tool.membudget]\ntimeout = 30\nsnapshots = 'all'\n",
}
ARGS = ("--membudget", "--doctest-glob=*.rst", "-p", "no:rerunfailures")


def skip_without_subtests(name):
    if name.endswith("subtest") and not hasattr(pytest, "Subtests"):
        pytest.skip("this pytest has no subtests")


@pytest.mark.parametrize("name", bad_bodies.HARMLESS)
def test_what_does_no_harm_is_estimated(run, name):
    skip_without_subtests(name)
    assert run.outcomes[f"test_{name}"] == "passed", run.text(f"test_{name}")
    assert run.allocated(f"test_{name}") == 8 * MIB


@pytest.mark.parametrize("name", bad_bodies.HARMFUL)
def test_the_failure_says_what_happened_and_where(run, name):
    skip_without_subtests(name)
    _, said, at = bad_bodies.HARMFUL[name]
    lines = (run.folder / "test_bodies.py").read_text().splitlines()
    mark = lines.index(f"def test_{name}({bad_bodies.ASKED.get(name, '')}):")

    text = run.text(f"test_{name}")

    assert run.outcomes[f"test_{name}"] == "failed"
    assert run.rows[f"test_{name}"]["verdict"] == "error"
    assert any(part in text for part in (bad_bodies.CLOSED if said == "CLOSED" else (said,))), text
    assert f"test_bodies.py:{mark}: mem_budget(gib=0.015625)" in text
    if at == 'File "':
        assert re.search(rf'test_bodies.py", line {mark + 3} in test_{name}', text), text
    elif at:
        assert f"    {at}" in text, text
    assert len(text) < 10_000


def test_names_of_any_kind_have_files_of_their_own(run):
    rows = [row for row in run.report["tests"] if "::test_odd_name[" in row["nodeid"]]
    files = [row["snapshot"] for row in rows]

    assert len(rows) == len({file.lower() for file in files}) == 11
    for row in rows:
        assert row["verdict"] == "within"
        assert row["estimates"][0]["peak"]["allocated"] == 8 * MIB
        assert (run.report_path.parent / row["snapshot"]).is_file()
        assert re.fullmatch(r"snapshots/[\w-]+\.pickle", row["snapshot"], re.ASCII)
        assert len(os.path.basename(row["snapshot"])) < 200


@pytest.mark.parametrize(
    ("name", "mib"),
    [
        ("test_held_for_the_session[4]", 4),
        ("test_held_for_the_session[8]", 8),
        ("held", 8),
        ("good.rst", 8),
    ],
)
def test_what_set_up_and_items_of_any_kind_hold_is_charged(run, name, mib):
    assert run.outcomes[name] == "passed", run.text(name)
    assert run.allocated(name) == mib * MIB


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("test_fixture_fails", ["RuntimeError in setup at test_items.py:", "no such file"]),
        ("test_teardown_fails", ["RuntimeError in teardown at test_items.py:", "no such folder"]),
        ("test_fixture_is_unknown", ["in setup at test_items.py:", "fixture 'brokken' not found"]),
        ("test_coroutine", ["async def functions are not natively supported", "install a suitable plugin"]),
        ("test_class_fails", ["RuntimeError in setup at test_items.py:", "no class"]),
        ("not held", ["put the model and its inputs on device 'cuda'"]),
        ("bad.rst", ["in call at bad.rst:", "bad.rst:3: DocTestFailure", "Expected:\n    3\nGot:\n    2"]),
    ],
)
def test_what_fails_around_a_body_is_reported_with_its_place(run, name, said):
    assert run.outcomes[name] == "failed"
    text = run.text(name)
    assert all(part in text for part in said), text


def test_a_failure_that_unittest_expects_is_unchecked_and_no_pass(run):
    assert run.outcomes["test_expected_to_fail"] == "skipped"
    said = "test_expected_to_fail: skipped on the stand-in: xfail"
    assert any(line.endswith(said) for line in run.lines)


def test_nothing_is_lost(run):
    assert run.status == 1
    assert "INTERNALERROR" not in run.out + run.err
    assert len(run.rows) == len(run.cases)
    assert len(run.rows) == len(bad_bodies.HARMLESS) + len(bad_bodies.HARMFUL) + 11 + 2 + 4 + 2 + 2 + 2
