"""Tests of every ordinary form are traced as pytest runs them: fixtures, parameters, classes, unittest."""

import pytest

MIB = 2**20

FILES = {
    "noted": "",  # what a test makes is removed, and what it appends to is not
    "pyproject.toml": """
        [tool.pytest.ini_options]
        disable_test_id_escaping_and_forfeit_all_rights_to_community_support = true

        [tool.membudget]
        advice = "off"
        """,
    "conftest.py": """
        import os

        import pytest
        import torch

        def hold(mib):
            return torch.empty(int(mib * 2**20), dtype=torch.uint8, device="cuda")

        def note(name):
            with open("noted", "a") as file:
                file.write(f"{name} {os.getpid()}\\n")

        @pytest.fixture(scope="session")
        def from_conftest():
            note("session fixture")
            yield hold(3)
            note("session fixture ended")
        """,
    "test_fixture_ends.py": """
        import pytest
        import torch
        from conftest import hold

        @pytest.fixture
        def saves_at_the_end():
            kept = hold(2)
            yield
            hold(11)

        @pytest.mark.mem_budget(gib=1)
        def test_teardown(saves_at_the_end):
            hold(6)

        @pytest.fixture
        def trained():
            models = [torch.nn.Linear(1024, 1024, bias=False, device="cuda")]
            yield models
            models.clear()  # before anything runs that would find its gradients
            hold(1)

        @pytest.mark.mem_budget(gib=1)
        def test_gradients_of_a_fixtures_model(trained):
            trained[0](torch.ones(1, 1024, device="cuda")).sum().backward()
        """,
    "test_budgets.py": """
        import os
        import unittest

        import pytest
        import torch
        from conftest import hold, note

        @pytest.fixture(scope="module")
        def of_module():
            return hold(4)

        @pytest.fixture
        def of_function(of_module):
            return hold(5)

        @pytest.fixture(autouse=True)
        def always():
            yield hold(2) if torch.cuda.is_available() else None
            note("autouse fixture ended")

        @pytest.mark.mem_budget(gib=1)
        def test_fixtures(from_conftest, of_function):
            hold(6)

        IDS = ["größe", "a::b", "a[0]"]  # and others in test_bad_bodies.py

        @pytest.mark.mem_budget(gib=1)
        @pytest.mark.parametrize("mib", range(4, 4 + len(IDS)), ids=IDS)
        def test_ids(mib):
            kept = hold(mib)

        @pytest.mark.parametrize(
            "mib",
            [
                pytest.param(10, marks=pytest.mark.mem_budget(gib=0.5)),
                pytest.param(20, marks=pytest.mark.mem_budget(gib=1 / 128)),
                pytest.param(
                    30,
                    marks=pytest.mark.mem_budget(gib=0.001),
                ),
                40,
            ],
        )
        def test_params(mib):
            kept = hold(mib)

        @pytest.mark.mem_budget(gib=1, metric="reserved", components={"inputs": 1})
        class TestClass:
            size = 7

            def setup_method(self):
                self.held = hold(self.size)

            def test_of_the_class(self):
                pass

            @pytest.mark.mem_budget(gib=0.001)
            def test_own_size(self):
                pass

            @pytest.mark.mem_budget(metric="allocated")
            class TestInner:
                def test_nested(self):
                    kept = hold(7)

        class TestDerived(TestClass):
            size = 9

        class TestUnit(unittest.TestCase):
            @classmethod
            def setUpClass(cls):
                cls.shared = hold(10)

            def setUp(self):
                self.held = hold(12)

            @pytest.mark.mem_budget(gib=1)
            @unittest.skipUnless(torch.cuda.is_available(), "needs CUDA")
            def test_unit(self):
                self.assertTrue(self.held.is_cuda)

            @pytest.mark.mem_budget(gib=1)
            def test_subtests(self):
                for mib in (1, 2):
                    with self.subTest(mib=mib):
                        kept = hold(mib)

        @pytest.mark.mem_budget(gib=1)
        def test_builtin_fixtures(tmp_path, monkeypatch, capsys, request, cache, recwarn, caplog):
            print("text")
            assert capsys.readouterr().out == "text\\n"
            monkeypatch.setenv("SEEN", "1")
            monkeypatch.chdir(tmp_path)
            (tmp_path / "file").write_text("x")
            kept = hold(13)

        def test_unmarked(tmp_path):
            assert not os.environ.get("SEEN")
        """,
    "test_module_mark.py": """
        import pytest
        from conftest import hold

        pytestmark = [pytest.mark.usefixtures("from_conftest"), pytest.mark.mem_budget(gib=1)]

        def test_of_the_module():
            hold(1)

        @pytest.mark.mem_budget(gib=0.001)
        def test_own():
            hold(1)
        """,
}
LINE_OF_PARAMS = 32  # of test_budgets.py: where the parametrized test begins


@pytest.fixture(scope="module")
def allocated(run):
    """The peak of a test, MiB."""
    return lambda name: run.allocated(name) / MIB


def test_fixtures_of_every_scope_are_charged(allocated):
    assert allocated("test_fixtures") == 2 + 3 + 4 + 5 + 6


def test_fixtures_are_torn_down_in_the_process_that_made_them(run):
    noted = [line.rpartition(" ") for line in (run.folder / "noted").read_text().splitlines()]
    processes = {what: {pid for name, _, pid in noted if name == what} for what, _, _ in noted}

    assert len(processes["session fixture"]) == 3  # of the tests that ask for it, each in its own process
    assert processes["session fixture"] == processes["session fixture ended"]
    assert processes["session fixture"] & processes["autouse fixture ended"]


@pytest.mark.parametrize("number", range(3))
def test_any_parameter_id_is_found(run, number):
    rows = [row for row in run.report["tests"] if "::test_ids[" in row["nodeid"]]

    assert len(rows) == 3
    assert rows[number]["verdict"] == "within", rows[number]
    assert rows[number]["estimates"][0]["peak"]["allocated"] == (4 + number + 2) * MIB


@pytest.mark.parametrize(("number", "verdict"), [(0, "within"), (1, "over"), (2, "over")])
def test_a_parameters_own_mark_is_its_budget(run, number, verdict):
    row = next(row for row in run.report["tests"] if f"::test_params[{10 * (number + 1)}]" in row["nodeid"])

    assert row["verdict"] == verdict
    assert row["location"] == f"test_budgets.py:{LINE_OF_PARAMS}"


def test_a_parameter_without_a_mark_is_no_budget(run):
    assert not any("test_params[40]" in row["nodeid"] for row in run.report["tests"])


def budget(run, nodeid):
    return next(row["budget"] for row in run.report["tests"] if row["nodeid"] == f"test_budgets.py::{nodeid}")


@pytest.mark.parametrize(
    ("nodeid", "gib", "metric"),
    [
        ("TestClass::test_of_the_class", 1, "reserved"),
        ("TestClass::test_own_size", 0.001, "reserved"),
        ("TestClass::TestInner::test_nested", 1, "allocated"),
        ("TestDerived::test_own_size", 0.001, "reserved"),
    ],
)
def test_marks_are_merged_argument_by_argument_the_closest_first(run, nodeid, gib, metric):
    found = budget(run, nodeid)

    assert (found["gib"], found["metric"], found["components"]) == (gib, metric, {"inputs": 1})


def test_a_derived_class_runs_with_its_own_attributes(run):
    rows = {row["nodeid"]: row["estimates"][0]["peak"]["allocated"] / MIB for row in run.report["tests"]}

    assert rows["test_budgets.py::TestClass::test_of_the_class"] == 2 + 7
    assert rows["test_budgets.py::TestDerived::test_of_the_class"] == 2 + 9


def test_unittest_methods_have_their_set_up(run, allocated):
    assert run.outcomes["test_unit"] == "passed", run.out
    assert allocated("test_unit") == 2 + 10 + 12
    assert allocated("test_subtests") == 2 + 10 + 12 + 2 + 1  # `kept` is there while the next is made


def test_builtin_fixtures_work_and_leave_the_session_alone(run, allocated):
    assert run.outcomes["test_builtin_fixtures"] == "passed", run.out
    assert allocated("test_builtin_fixtures") == 2 + 13
    assert run.outcomes["test_unmarked"] == "passed"


def test_a_mark_of_the_module_holds_for_all_and_yields_to_their_own(run):
    assert run.outcomes["test_of_the_module"] == "passed"
    assert run.outcomes["test_own"] == "failed"
    assert run.rows["test_of_the_module"]["location"].endswith(":6")
    assert run.rows["test_own"]["location"].endswith(":9")


def test_what_fixtures_allocate_when_they_end_is_charged(allocated):
    assert allocated("test_teardown") == 2 + 11  # what is kept, and what the end takes


def test_a_models_gradients_are_known_though_its_fixture_ends_before_the_test(run):
    """A layer of 4 MiB."""
    (report,) = run.rows["test_gradients_of_a_fixtures_model"]["estimates"]

    assert report["components"]["gradients"] == 4 * MIB
