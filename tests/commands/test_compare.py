"""``membudget report`` in the terminal, and ``membudget compare`` of two reports."""

import json
import subprocess

import pytest

from pytest_membudget.commands.main import main

GIB = 2**30


@pytest.fixture
def printed(tmp_path, capsys, monkeypatch):
    """``printed("report", report, ...)`` is what the subcommand prints of these reports, 80 columns wide."""
    monkeypatch.setenv("COLUMNS", "80")

    def run(command, *reports, status=0, more=()):
        paths = []
        for number, report in enumerate(reports):
            path = tmp_path / f"{number}.json"
            path.write_text(json.dumps(report))
            paths.append(str(path))
        assert main([command, *paths, *more]) == status
        return capsys.readouterr().out.splitlines()

    return run


def test_a_report_prints_the_failures_and_the_table(printed, raw, row, over):
    lines = printed("report", raw(over(), row()))

    assert lines[0].strip("_") == " tests/test_memory.py::test_over "
    assert lines[1] == "1.00 GiB over its budget of 3 GiB"
    assert lines[-1] == "2 estimated (1 within, 1 over), 0 measured (no CUDA)"
    assert [line.split()[0] for line in lines[-3:-1]] == ["test_step", "test_over"]


def test_a_report_has_what_the_session_knew(printed, raw, row):
    of_host = row("a.py::test_host", budget={"gib": 5, "host_gib": 8}, host_bytes=7 * GIB, cached=True)
    raised = row("a.py::test_raised", verdict="error", reason="KeyError", raised=True, details="  a.py:3")
    lines = printed("report", raw(of_host, raised))

    assert " 7.00 of 8.00 GiB" in next(line for line in lines if line.endswith("within"))
    assert "Peak memory:" not in lines
    assert lines[-2:] == [
        "1 estimated (1 within, 0 over, 1 from cache), 1 without an estimate, 0 measured",
        "  (no CUDA)",
    ]


def test_a_report_lists_all_tests_with_v(printed, raw, row):
    report = raw(*(row(f"a.py::test_{number}") for number in range(30)))

    assert "within their budgets: 30 (-v lists them)" in printed("report", report)
    assert sum(line.startswith("a.py::test_") for line in printed("report", report, more=["-v"])) == 30


@pytest.fixture
def larger(row, figure):
    """``larger(nodeid)`` takes 5 GiB: 1 GiB of activations more than others do."""

    def make(nodeid):
        held = figure({
            "peak.allocated": 5 * GIB, "timeline": None,
            "components": {"parameters": 3 * GIB, "activations": 2 * GIB - 512, "rounding": 512},
            "holders.1.bytes": 2 * GIB - 512, "holders.1.location": "src/model.py:57",
            "holders.1.source": "y = f(x)",
        })  # fmt: skip
        return row(nodeid, estimates=[held])

    return make


def test_compare_says_what_has_grown_and_where(printed, raw, row, larger, figure):
    before = figure({"holders.1.location": "src/model.py:57", "holders.1.source": "y = f(x)"})
    base = raw(row("a.py::test_a", estimates=[before]), row("a.py::test_gone"), distributions={"peft": "1"})
    head = raw(larger("a.py::test_a"), row("a.py::test_new"), distributions={"peft": "2"})
    lines = printed("compare", base, head)

    assert lines[:4] == [
        "grown and allowed: a.py::test_a takes 1.00 GiB (25.0%) more than at the base,",
        "  with peft 1 -> 2",
        "  +1.00 GiB  activations",
        "      src/model.py:57 (aten::mm): y = f(x)",
    ]
    assert sum("takes 1.00 GiB" in line for line in lines) == 1
    assert "removed since the base: a.py::test_gone" in lines
    assert "installed since the base: peft 1 -> 2" in lines
    assert [line.split()[-1] for line in lines if line.startswith("test_")] == ["within", "(new)"]


def test_compare_lists_tests_that_are_skipped_now(printed, raw, row):
    skipped = row(verdict="skipped", reason="no reason", estimates=[])

    assert f"skipped, and not at the base: {skipped['nodeid']}" in printed(
        "compare", raw(row()), raw(skipped)
    )


@pytest.fixture
def complaint(capsys):
    """``complaint(a, b)`` is what ``membudget compare a b`` says, on one line."""

    def run(*paths):
        assert main(["compare", *map(str, paths)]) == 2
        return " ".join(capsys.readouterr().err.split())

    return run


def test_a_file_that_is_no_report_is_named(tmp_path, complaint):
    other = tmp_path / "report.json"
    other.write_bytes(b"\x80\x04")

    assert complaint(other, other).startswith(f"membudget: {other}: is not UTF-8 text")


def test_a_folder_with_a_report_and_a_commit_say_what_to_write(tmp_path, complaint, monkeypatch):
    (tmp_path / "report.json").write_text("{}")
    assert f"write {tmp_path / 'report.json'}" in complaint(tmp_path, tmp_path)

    monkeypatch.chdir(tmp_path)
    for command in ("init -q -b trunk", "-c user.name=a -c user.email=a commit -q --allow-empty -m a"):
        subprocess.run(["git", *command.split()], check=True)
    assert "write pytest --membudget --membudget-compare=trunk" in complaint("trunk", "report.json")
    assert "no-branch is no file: write a report.json, of pytest" in complaint("no-branch", "trunk")
