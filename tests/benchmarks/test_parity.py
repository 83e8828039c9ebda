"""The comparison of the two devices: differences and whose fault they are, reasons, results, the page."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks.parity import test_files
from benchmarks.parity.comparing import (
    DATA,
    FAKE_ERROR,
    FAKE_FAULT,
    FAKE_LISTED,
    STAND_IN_ERROR,
    STAND_IN_NOT_MODELLED,
    Difference,
    compared,
    whose_fault,
)
from benchmarks.parity.page import parity_page, parity_summary
from benchmarks.parity.reasons import Reason, grouped, read_reasons
from benchmarks.parity.recording import Event, Phase, phases_of
from benchmarks.parity.results import Part, Row, rows_of
from benchmarks.parity.test_files import compared_reports

NOTHING = Phase((), 0)
VERSIONS = {"torch": "2.15.0", "card": "A100-80GB", "samples": "all"}


def sample(forward=NOTHING, backward=NOTHING, error="", assumed=()):
    phases = {"forward": forward.to_json(), "backward": backward.to_json()}
    return {"sample": "float32 0: 4", "error": error, "assumed": list(assumed), **phases}


def answer(*samples, not_modelled=()):
    return {"outcome": "ok", "samples": list(samples), "not_modelled": list(not_modelled)}


def row(work="sort", phase="forward", fault=FAKE_FAULT, samples=1, **example):
    note = example.pop("note", "")
    return Row(work, phase, fault, samples, Difference(work, "4", phase, fault, note, **example))


def test_a_phase_has_its_own_requests_and_the_peak_above_its_start():
    events = [
        Event("alloc", 1, 100),  # before the first phase
        Event("alloc", 2, 30),
        Event("alloc", 3, 20),
        Event("free_completed", 2, 30),
        Event("alloc", 4, 25),  # the second phase: 100 + 20 are alive
        Event("free_completed", 1, 100),
        Event("alloc", 5, 90),
    ]

    phases = phases_of(events, [1, 3])

    # 30 + 20 above 100; then 25 above 120, and 25 + 90 - 100 = 15 above it
    assert phases == [Phase((30, 20), 50), Phase((25, 90), 25)]


def test_phases_without_a_request_are_there():
    assert phases_of([Event("alloc", 1, 8)], [0, 1, 1]) == [Phase((8,), 8), NOTHING, NOTHING]


def test_the_same_requests_in_another_order_are_no_difference():
    one, other = answer(sample(Phase((8, 16), 24))), answer(sample(Phase((16, 8), 24)))

    assert compared("add", one, other) == []


def test_requests_of_one_side_only_are_held_against_fake_tensors():
    one, other = answer(sample(Phase((8, 512, 512), 520))), answer(sample(Phase((8, 512, 4), 520)))

    (found,) = compared("add", one, other)

    assert (found.fault, found.phase) == (FAKE_FAULT, "forward")
    assert (found.only_stand_in, found.only_fake) == ((512,), (4,))


def test_the_same_requests_with_another_peak_are_a_difference():
    one, other = answer(sample(backward=Phase((8, 8), 16))), answer(sample(backward=Phase((8, 8), 8)))

    (found,) = compared("add", one, other)

    assert (found.phase, found.stand_in_peak_bytes, found.fake_peak_bytes) == ("backward", 16, 8)
    assert found.only_stand_in == found.only_fake == ()


@pytest.mark.parametrize(
    ("stand_in", "fake", "assumed", "fault"),
    [
        ((), (), (), FAKE_FAULT),
        ((), ("aten::sort: not counted",), (), FAKE_LISTED),
        (("cusolverDnSgesvd",), ("aten::svd: not counted",), (), STAND_IN_NOT_MODELLED),
        (("cusolverDnSgesvd",), (), ("read of bool",), DATA),
    ],
)
def test_whose_fault_a_difference_is(stand_in, fake, assumed, fault):
    assert whose_fault(stand_in, fake, assumed)[0] == fault


def test_an_error_on_one_side_is_that_sides():
    fine, failed = sample(), sample(error="backward: RuntimeError: no")

    (on_stand_in,) = compared("add", answer(failed), answer(fine))
    (on_fake,) = compared("add", answer(fine), answer(failed))

    assert (on_stand_in.fault, on_stand_in.phase) == (STAND_IN_ERROR, "backward")
    assert (on_fake.fault, on_fake.note) == (FAKE_ERROR, "backward: RuntimeError: no")


def test_a_sample_that_fails_on_both_is_no_difference():
    failed = sample(error="forward: RuntimeError: no")

    assert compared("add", answer(failed), answer(failed)) == []


def test_a_process_that_died_on_one_device_is_a_difference():
    died = {"outcome": "error", "reason": "it was killed\nby a signal"}

    (found,) = compared("add", died, answer(sample()))

    assert (found.fault, found.note) == (STAND_IN_ERROR, "it was killed")
    assert compared("add", died, died) == []


def test_samples_that_were_not_made_are_a_difference():
    (found,) = compared("add", answer(sample(), sample()), answer(sample()))

    assert (found.fault, found.note) == (FAKE_ERROR, "1 samples were not made")


def test_rows_count_samples_and_show_the_largest():
    def one(stand_in_bytes, fault=FAKE_FAULT):
        return Difference("sort", "4", "forward", fault, "", (stand_in_bytes,), (), stand_in_bytes, 0)

    rows = rows_of([one(8), one(64), one(16), one(32, DATA)])

    found = {found.fault: (found.samples, found.example.stand_in_peak_bytes) for found in rows}
    assert found == {FAKE_FAULT: (3, 64), DATA: (1, 32)}


def test_a_part_is_read_as_it_was_written(tmp_path):
    part = Part(
        "operators", VERSIONS, {"add": 3, "sort": 2}, [row(only_stand_in=(8,), note="why")], {"add": 1}
    )

    part.write(tmp_path)

    assert Part.read(tmp_path, "operators") == part
    assert Part.read(tmp_path, "steps") == Part("steps")


def test_a_piece_of_work_that_runs_again_replaces_what_was_found():
    part = Part("operators", VERSIONS, {"sort": 2}, [row("sort"), row("add")], {"sort": 2, "add": 1})

    part.add("sort", 5, [], 1)

    assert part.counts == {"sort": 5}
    assert part.failed_on_both == {"sort": 1, "add": 1}
    assert [kept.work for kept in part.rows] == ["add"]


def test_a_reason_explains_what_all_its_conditions_hold_for():
    reason = Reason("empty products", works=("add*", "bmm"), phase="forward", sizes_bytes=(512, 1024))

    assert reason.explains(row("addmm", only_fake=(512, 512)))
    assert not reason.explains(row("addmm", only_fake=(512, 4)))
    assert not reason.explains(row("addmm"))  # other peaks, the same requests
    assert not reason.explains(row("mm", only_fake=(512,)))
    assert not reason.explains(row("bmm", phase="backward", only_fake=(512,)))


def test_the_first_reason_that_holds_is_taken_and_the_rest_has_none():
    reasons = [Reason("first", works=("sort",)), Reason("second", works=("*",), fault=FAKE_FAULT)]

    groups = grouped([row("sort"), row("add"), row("add", fault=DATA)], reasons)

    assert [(group.reason, group.fault, len(group.rows)) for group in groups] == [
        ("first", FAKE_FAULT, 1),
        ("second", FAKE_FAULT, 1),
        ("", DATA, 1),
    ]


def test_the_reasons_that_are_written_down_can_be_read():
    assert all(reason.text for reason in read_reasons())


def test_a_reason_with_a_field_that_there_is_not_is_refused(tmp_path):
    path = tmp_path / "reasons.yaml"
    path.write_text("- reason: why\n  works: [add]\n  size: 4\n")

    with pytest.raises(ValueError, match="size is none of"):
        read_reasons(path)


def test_the_page_counts_the_same_and_names_what_was_not_compared():
    part = Part(
        "operators", VERSIONS, {"add": 30, "sort": 20}, [row("sort", samples=7, only_stand_in=(512,))]
    )

    page = parity_page([part, Part("steps")], [Reason("CUB's counts", works=("sort",))])

    assert "| operators | 2 | 1 | 50 | 7 | 0 | 0 | 0 | 0 | 0 | 0 |" in page
    assert "| CUB's counts | fake tensors | `sort` | 7 | 512 | 0 |" in page
    assert "## Not compared yet\n\nsteps." in page


def test_the_summary_has_the_counts_and_no_reasons():
    part = Part("operators", VERSIONS, {"add": 30, "sort": 20}, [row("sort", samples=7)])

    summary = parity_summary([part, Part("steps")])

    assert f"torch {VERSIONS['torch']}" in summary
    assert "| operators | 2 | 1 | 50 | 7 | 0 | 0 | 0 | 0 | 0 | 0 |" in summary
    assert "sort" not in summary


def test_a_page_of_nothing_is_refused():
    with pytest.raises(ValueError, match="nothing to write of"):
        parity_page([Part("operators")], [])


def test_tests_are_compared_by_their_peaks():
    def of(size_bytes, not_modelled=()):
        one = {"peak": {"allocated_bytes": size_bytes}, "not_modelled": list(not_modelled)}
        return {"estimates": [{"peak": {"allocated_bytes": 2}}, one]}

    stand_in = {"a.py::same": of(8), "a.py::less": of(16), "a.py::fails": {"reason": "no card"}}
    fake = {"a.py::same": of(8), "a.py::less": of(12, ["sort: not counted"]), "a.py::fails": of(4)}

    found = compared_reports("a", stand_in, fake)

    assert [(one.sample, one.fault) for one in found] == [("fails", STAND_IN_ERROR), ("less", FAKE_LISTED)]
    assert found[0].note == "no card"
    assert (found[1].stand_in_peak_bytes, found[1].fake_peak_bytes) == (16, 12)


def test_a_test_that_ended_with_an_error_is_one_whatever_it_took_until_then():
    ended = {"verdict": "error", "reason": "CUDA error", "estimates": [{"peak": {"allocated_bytes": 8}}]}
    whole = {"verdict": "within", "estimates": [{"peak": {"allocated_bytes": 12}}]}

    (on_stand_in,) = compared_reports("a", {"a.py::one": ended}, {"a.py::one": whole})

    assert (on_stand_in.fault, on_stand_in.note) == (STAND_IN_ERROR, "CUDA error")
    assert compared_reports("a", {"a.py::one": ended}, {"a.py::one": ended}) == []


def test_resuming_runs_only_the_files_that_have_no_results(monkeypatch):
    ran = []
    monkeypatch.setattr(test_files, "_rows", lambda path, *_: ran.append(path.stem) or {"test": {}})
    options = SimpleNamespace(only=["test_small_gpt", "test_vit_l16"], resume=True)

    works = [work for work, *_ in test_files.compared_files("examples", options, {"test_vit_l16": 2})]

    assert works == ["test_small_gpt"]
    assert set(ran) == {"test_small_gpt"}


def test_the_reports_of_both_devices_are_kept_where_every_difference_is(tmp_path, monkeypatch):
    def run(command, **_):
        folder = next(word for word in command if word.startswith("--membudget-report=")).partition("=")[2]
        Path(folder, "report.json").write_text(json.dumps({"tests": [{"nodeid": "a.py::b"}]}))

    monkeypatch.setattr(test_files.subprocess, "run", run)
    options = SimpleNamespace(gpu="A100-80GB", out=tmp_path / "out")

    rows = test_files._rows(Path("test_a.py"), "fake", options)

    kept = json.loads((tmp_path / "out" / "test_a-fake.json").read_text())
    assert list(rows) == ["a.py::b"]
    assert kept["tests"] == [{"nodeid": "a.py::b"}]
