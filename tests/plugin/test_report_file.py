"""report.json: complete, plain and the same with xdist; a folder that cannot be written changes no result."""

import json
import os

import pytest

from pytest_membudget.devices.torch_build.installed import workers_torch
from tests.report_fixtures import caveat_texts
from tests.repositories import git

FILES = {
    "test_budgets.py": """
        import pytest
        from holding import hold
        @pytest.mark.mem_budget(gib=1, components={"inputs": 0.5})
        @pytest.mark.parametrize("name", ["größe"])
        def test_within(name):
            import torch

            torch.nn.Linear(512, 512, device="cuda")(torch.randn(8, 512, device="cuda")).sum().backward()

        @pytest.mark.mem_budget(gpu="A100-40GB", metric="device")
        def test_card():
            hold(0.5)

        @pytest.mark.mem_budget(gib=1)
        def test_raises(record_property):
            record_property("got_so_far", 1)
            raise ValueError("none")

        @pytest.mark.mem_budget(gib=1)
        def test_records(record_property):
            import torch

            record_property("before", "set up")
            kept = hold(0.5)
            record_property("held_bytes", torch.cuda.memory_allocated())
            record_property("device", torch.device("cuda"))
            record_property("ratio", float("nan"))
        """
}


@pytest.fixture(scope="module")
def run(session_of):
    pytest.importorskip("xdist")  # other tests look into reports of sessions without
    return session_of(FILES, "--membudget", "-n2", "-o", "junit_family=xunit1")


def of(run, beginning):
    return next(row for row in run.report["tests"] if f"::{beginning}" in row["nodeid"])


def test_the_head_says_what_it_was_made_with(run):
    report = run.report
    (header,) = [
        line for line in run.lines if line.startswith("membudget: estimates on a stand-in H100-80GB ")
    ]

    assert report["distributions"]["pytest"] == pytest.__version__
    assert report["schema_version"] == 2
    assert report["torch"] == workers_torch(os.environ).version
    assert f"by the code of torch {report['torch']}" in header


def test_the_figures_are_of_the_stand_in(run):
    assert {row["estimates"][0]["device"] for row in run.report["tests"] if row["estimates"]} == {"stand-in"}


def test_an_estimate_adds_up(run):
    (estimate,) = of(run, "test_within")["estimates"]

    assert caveat_texts(estimate) == []
    assert sum(estimate["components"].values()) == estimate["peak"]["allocated"]
    assert of(run, "test_within")["snapshot"] is None  # not asked for
    assert not (run.report_path.parent / "snapshots").exists()


def test_an_estimate_adds_up_to_the_metric_of_its_budget(run):
    (estimate,) = of(run, "test_card")["estimates"]

    assert sum(estimate["components"].values()) == estimate["peak"]["device"]
    assert estimate["components"]["context"] > 0
    [line] = caveat_texts(estimate)
    assert line.startswith("CUDA context of A100-40GB taken to be ")


def test_what_a_body_records_is_in_its_row_though_it_raises(run):
    recorded = {"before": "set up", "held_bytes": 2**29, "device": "cuda", "ratio": "nan"}

    assert dict(of(run, "test_records")["properties"]) == recorded
    assert dict(of(run, "test_raises")["properties"]) == {"got_so_far": 1}
    assert of(run, "test_card")["properties"] == []


def test_junit_has_each_property_once_and_the_figures_of_the_estimate(run):
    entries = [(one.get("name"), one.get("value")) for one in run.cases["test_records"].iter("property")]

    assert ("held_bytes", str(2**29)) in entries
    assert len([name for name, _ in entries if not name.startswith("membudget.")]) == 4
    assert entries.count(("membudget.estimated_bytes", str(run.allocated("test_records")))) == 1
    assert entries.count(("membudget.budget_bytes", str(2**30))) == 1


def test_names_are_text_that_any_reader_can_read(run):
    assert run.report_path.read_bytes().isascii()
    nodeid = of(run, "test_within")["nodeid"]
    assert nodeid.encode("ascii", "backslashreplace").startswith(
        b"test_budgets.py::test_within[gr\\xf6\\xdfe"
    )


def test_the_file_is_named_and_is_relative_to_where_pytest_was_started(run):
    assert any(line.startswith("report: ") and line.endswith("membudget/report.json") for line in run.summary)


MALFORMED = "import pytest\n@pytest.mark.mem_budget(gib=0)\ndef test_it(): pass\ndef test_plain(): pass\n"


@pytest.mark.parametrize("no_terminal", [(), ("-p", "no:terminal")], ids=["terminal", "no terminal"])
def test_a_folder_that_cannot_be_written_is_reported_and_changes_no_result(session_of, no_terminal):
    files = {"test_it.py": MALFORMED, "taken": "a file"}

    run = session_of(
        files, "--membudget", "--membudget-report=taken", "-k", "plain", *no_terminal, report=False
    )

    assert run.status == 0
    said = run.err if no_terminal else run.out
    assert "\nmembudget: the report could not be written: " in f"\n{said}"


def test_the_commit_is_reported_and_reports_do_not_make_it_dirty(tmp_path, in_folder):
    def report():
        in_folder(tmp_path, "--membudget", "--membudget-report=out", "-p", "no:cacheprovider")
        return json.loads((tmp_path / "out/report.json").read_text())["git"]

    file = tmp_path / "test_it.py"
    file.write_text(MALFORMED)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", file.name)
    git(tmp_path, "commit", "-q", "-m", "first")
    report()

    head = git(tmp_path, "rev-parse", "HEAD")
    assert report() == {"commit": head, "dirty": False, "files": {file.name: file.name}}
    file.write_text(MALFORMED + "\n")
    assert report() == {"commit": head, "dirty": True, "files": {}}
