"""A report is anybody's: what does not fit is refused by its key path, without a traceback, with status 2."""

import json
import re

import pytest

GIB = 2**30
FORMATS = ["terminal", "markdown", "github", "gitlab"]


def refused(command, report, *arguments):
    status, out, err = command(report, "--format=gitlab", *arguments)
    assert status == 2
    assert out == ""
    assert err.count("\n") == 1
    assert "Traceback" not in err
    assert err.startswith("membudget: ")
    return err.partition("report.json: ")[2].strip()


@pytest.mark.parametrize("output_format", FORMATS)
def test_a_whole_report_is_written(command, raw, over, output_format):
    status, out, err = command(raw(over()), f"--format={output_format}")
    assert (status, err) == (0, "")
    assert out


#: What stands at the beginning of most key paths.
FIGURE = "tests.0.estimates.0"
TIMELINE = f"{FIGURE}.timeline"
LARGEST = "9223372036854775807"
WHOLE = f"must be a whole number from 0 to {LARGEST}"
FINITE = "must be a finite number from 0 on and below 1e+15"
AT_PEAK = "must be components.parameters at the peak, 3,221,225,472"
VERDICTS = "must be one of within, over, undecided, unset, error, skipped"
UNLIKE = {"kind": "dtype", "head": 32}
LAST = "[...]"  # the place of the value itself


@pytest.mark.parametrize(
    ("path", "value", "place", "message"),
    [
        ("schema_version", 3, LAST, "must be 2, which this version reads, and is 3"),
        ("schema_version", "1", LAST, f'{WHOLE}, and is "1"'),
        ("schema_version", True, LAST, f"{WHOLE}, and is true"),
        ("tests", {}, LAST, "must be a list of at most 100,000, and is an object of 0 keys"),
        ("tests.0", None, LAST, "must be an object, and is null"),
        ("tests.0.nodeid", 7, LAST, "must be a text, and is 7"),
        ("tests.0.nodeid", "x" * 10_001, LAST, "must be a text of at most 10,000 characters"),
        ("tests.0.verdict", "fine", LAST, f'{VERDICTS}, and is "fine"'),
        ("tests.0.verdict", ["within"], LAST, f"{VERDICTS}, and is a list of 1"),
        ("tests.0.location", 1.5, LAST, "must be a text, and is 1.5"),
        ("tests.0.limit_bytes", -1, LAST, f"{WHOLE}, and is -1"),
        ("tests.0.limit_bytes", 2**63, LAST, f"{WHOLE}, and is 9223372036854775808"),
        ("tests.0.limit_bytes", float("nan"), LAST, f"{WHOLE}, and is nan"),
        ("tests.0.budget.gib", float("nan"), LAST, f"{FINITE}, and is nan"),
        ("tests.0.budget.gib", float("inf"), LAST, f"{FINITE}, and is inf"),
        ("tests.0.budget.gib", 10**400, LAST, f"{FINITE}, and is a larger number"),
        ("tests.0.budget.gib", True, LAST, f"{FINITE}, and is true"),
        ("tests.0.expected", 1, LAST, "must be true or false, and is 1"),
        (f"{FIGURE}.kind", "<b>", LAST, "must be a word of small letters"),
        (f"{FIGURE}.metric", "all", LAST, "must be one of allocated, reserved, device"),
        (f"{FIGURE}.peak.reserved", "4", LAST, f'{WHOLE}, and is "4"'),
        (f"{FIGURE}.components", {"<x>": 1}, "[...] (a key)", "must be a word of small letters"),
        (f"{FIGURE}.components", {}, LAST, "must add up to peak.allocated, 4,294,967,296, and is 0"),
        (f"{FIGURE}.holders.1.bytes", None, LAST, f"{WHOLE}, and is null"),
        (f"{FIGURE}.holders.0.location", {}, LAST, "must be a text, and is an object of 0 keys"),
        (f"{TIMELINE}.moments", [0, 4, 4, 9], LAST, "must rise from each to the next"),
        (f"{TIMELINE}.moments.0", -1, LAST, f"{WHOLE}, and is -1"),
        (f"{TIMELINE}.moments", [0] * 3000, LAST, "must be a list of at most 2,000, and is a list of 3,000"),
        (f"{TIMELINE}.components.parameters", [1], LAST, "must have 4 sizes, as moments"),
        (f"{TIMELINE}.components.parameters", [0, 0, 1, 0], "[...][2]", f"{AT_PEAK}, and is 1"),
        (f"{TIMELINE}.components", {}, "[...].parameters[2]", f"{AT_PEAK}, and is 0"),
        (f"{TIMELINE}.peak_moment", 5, LAST, "must be one of the moments, and is 5"),
        (f"{TIMELINE}.phases", [[1]], "[...][0]", "must be a moment and a name"),
        (f"{TIMELINE}.phases", [[1, "<b>"]], "[...][0][1]", "must be a word of small letters"),
        ("tests.0.comparison", {"status": "worse"}, "[...].status", "must be one of new, removed, grown"),
        (
            "tests.0.comparison",
            {"status": "new", "findings": [{"bytes": 1}]},
            "[...].findings[0].component",
            "must be there, and is missing",
        ),
        ("comparison", {"removed": [7]}, "[...].removed[0]", "must be a text, and is 7"),
        ("git", [], LAST, "must be an object, and is a list of 0"),
        (f"{FIGURE}.phase", "wait", LAST, 'must be one of , forward, backward, optimizer, and is "wait"'),
        (
            "tests.0.comparison",
            {"status": "grown", "differences": [UNLIKE]},
            "[...].differences[0].head",
            "must be a text, and is 32",
        ),
    ],
    ids=range(40),
)
def test_what_does_not_fit_is_named_by_its_key_path(command, raw, row, path, value, place, message):
    report = raw(row())
    *steps, last = [int(step) if step.isdecimal() else step for step in path.split(".")]
    inner = report
    for step in steps:
        inner = inner[step]
    inner[last] = value
    written = re.sub(r"\.(\d+)", r"[\1]", path)
    assert refused(command, report).startswith(f"{place.replace('[...]', written)}: {message}")


@pytest.mark.parametrize("key", ["nodeid", "location", "verdict", "reason", "estimates"])
def test_a_key_that_is_missing_is_named(command, raw, row, key):
    short = row()
    del short[key]
    assert refused(command, raw(row("a"), short)) == f"tests[1].{key}: must be there, and is missing"


@pytest.mark.parametrize("key", ["budget", "limit_bytes", "details", "measurements", "not_measured"])
def test_what_earlier_reports_had_not_is_not_missed(command, raw, row, key):
    short = row()
    del short[key]
    assert command(raw(short), "--format=markdown")[0] == 0


def test_keys_of_later_versions_are_left_out(document, row):
    [read] = document(row(later={"nan": float("nan")})).tests
    assert not hasattr(read, "later")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is not JSON: Expecting value, line 1"),
        (b"{", "is not JSON: Expecting property name"),
        (b"\xff\xfe", "is not UTF-8 text: byte 0"),
        (b"[]", "the document: must be an object, and is a list of 0"),
        (b"null", "the document: must be an object, and is null"),
        (b'"\x00"', "is not JSON: Invalid control character"),
        (b"[" * 200_000, "is nested far deeper than a report is"),
        (b'{"a":' * 200_000, "is nested far deeper than a report is"),
        (b"9" * 5000, "is not JSON that can be read: it has a number of thousands of digits"),
        (b'{"schema_version": NaN, "tests": []}', "schema_version: must be a whole number"),
    ],
    ids=range(10),
)
def test_what_is_no_report_at_all_is_refused(command, data, message):
    assert refused(command, data).startswith(message)


def test_a_file_that_is_too_large_is_not_read(command, raw, row):
    report = json.dumps(raw(row())).encode() + b" " * 2**20
    assert refused(command, report, "--max-mib=1").startswith("is larger than 1 MiB, the limit for a report")
    assert command(report, "--format=gitlab", "--max-mib=2")[0] == 0


def test_a_file_that_is_not_there_is_named(command):
    assert refused(command, None) == "cannot be read: No such file or directory"


def test_errors_show_no_control_characters(command, raw, row):
    err = refused(command, raw(row(verdict="\x1b[2J\u202e\n::error::x")))
    assert err.endswith('and is "\\x1b[2J\\u202e\\n::error::x"')


def test_a_long_or_deep_value_is_not_shown_whole(command, raw, row):
    assert len(refused(command, raw(row(verdict="x" * 100_000)))) < 200
    assert len(refused(command, raw(row(verdict=[["x"] * 99] * 9999)))) < 200


@pytest.mark.parametrize("output_format", FORMATS)
def test_hostile_texts_are_only_texts(command, hostile_report, output_format):
    status, out, err = command(hostile_report, f"--format={output_format}")
    assert (status, err) == (0, "")
    assert not [
        char for char in out if (char < " " and char not in "\n\t\r") or char in "\u202e\u2028\x7f\ud800"
    ]


def test_texts_are_shown_with_their_hidden_characters_written_out(document, row):
    [read] = document(row("a\x1b[31m\u202eb\ud800\n", details="a\n\tb\r\x00")).tests
    assert read.nodeid == "a\\x1b[31m\\u202eb\\ud800\\n"
    assert read.details == "a\n\tb\\r\\x00"


def test_texts_in_other_scripts_stay(document, row):
    [read] = document(row("test_größe[日本語-é🙂]")).tests
    assert read.nodeid == "test_größe[日本語-é🙂]"
