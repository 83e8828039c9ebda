"""What fails, what has changed and what to do: from the rows, whose figures are 4 GiB and round numbers."""

import pytest

from pytest_membudget.reporting.causes import cause_text
from pytest_membudget.reporting.links import place_in
from pytest_membudget.reporting.status import headline, is_notable, reported_tests

GIB = 2**30


@pytest.fixture
def reported(document):
    """``reported(row)`` is the status of a single test."""
    return lambda row: reported_tests(document(row))[0]


def quoted(text):
    return f"<{text}>"


OVER = "Takes 4.00 GiB, 1.00 GiB over its budget of 3.00 GiB."
ENOUGH = "Take 1.00 GiB off, first at <src/model.py:41>, or write gib=4."
COMPONENT = "activations 0.5 GiB over their budget of 0.5 GiB"
GROWN = {"status": "grown", "reason": "more", "base": None, "limit_bytes": 2 * GIB}
ALLOW = "Undo the growth, or allow it: <pytest --membudget --membudget-update=raise>."


@pytest.mark.parametrize(
    ("made", "changes", "level", "word", "explained", "to_do"),
    [
        ("row", {}, "fine", "within budget", "Takes 4.00 GiB of its budget of 5.00 GiB.", ""),
        ("over", {}, "failure", "over budget", OVER, ENOUGH),
        ("over", {"expected": True}, "fine", "over budget (expected)", OVER, None),
        (
            "row", {"verdict": "over", "reason": COMPONENT},
            "failure", "over budget", f"Takes 4.00 GiB: <{COMPONENT}>.", None,
        ),
        (
            "row", {"verdict": "undecided", "reason": "allocated 4.00 GiB, up to 4.40 GiB"},
            "warning", "undecided",
            "Takes 4.00 GiB by formulas; undecided: <allocated 4.00 GiB, up to 4.40 GiB>.",
            "Let a library run it (implementation: transformers, torchtitan or plain).",
        ),
        (
            "row", {"verdict": "unset", "limit_bytes": None},
            "warning", "unset", "Takes 4.00 GiB. It has no limit.", "Set a limit: write gib=4.",
        ),
        (
            "row", {"verdict": "error", "reason": "nothing on cuda", "estimates": []},
            "failure", "not checked", "Its budget was not checked: <nothing on cuda>.", None,
        ),
        (
            "over", {"reason": "more", "lock": GROWN},
            "failure", "grown too much",
            "Takes 4.00 GiB, 1.00 GiB over what its entry in membudget.lock.yaml allows, 3.00 GiB.", ALLOW,
        ),
    ],
)  # fmt: skip
def test_what_is_said_of_a_test(request, reported, made, changes, level, word, explained, to_do):
    one = reported(request.getfixturevalue(made)(**changes))

    assert (one.level, one.word, one.explained(quoted)) == (level, word, explained)
    assert to_do is None or one.to_do(quoted) == to_do
    assert one.is_listed == (level != "fine")


ROW = {"bytes": GIB, "count": 1, "component": "inputs", "location": "a.py:3", "operator": "aten::ones"}


@pytest.mark.parametrize(
    ("budget", "figures", "more", "to_do"),
    [
        (
            {"components": {"parameters": 4, "activations": 0.5}}, {"holders.1.location": "b.py:2"}, {},
            "Take 0.50 GiB off activations, first at <b.py:2>, or write "
            "components={'parameters': 4, 'activations': 1}.",
        ),
        (
            {"held_gib": 0.5}, {"held": {"bytes": GIB, "holders": [ROW]}}, {},
            "Take 0.50 GiB off what is held when the body ends, first at <a.py:3>, or write held_gib=1.",
        ),
        (
            {"host_gib": 1.5}, {"host.holders": [ROW]}, {"host_bytes": 2 * GIB},
            "Take 0.50 GiB off host memory, first at <a.py:3>, or write host_gib=2.",
        ),
        ({"components": {"parameters": 4}, "held_gib": 5, "host_gib": 5}, {}, {"host_bytes": GIB}, ""),
    ],
    ids=["component", "held", "host", "none"],
)  # fmt: skip
def test_what_is_over_besides_the_total_has_its_lines_and_what_to_write(
    reported, row, figure, budget, figures, more, to_do
):
    host = {name: value for name, value in figure().items() if name not in ("host", "timeline")}
    made = figure({"host": host, **figures})

    one = reported(
        row(verdict="over", reason="why", limit_bytes=None, budget=budget, estimates=[made], **more)
    )

    assert one.to_do(quoted) == to_do


def test_a_budget_that_is_suggested_is_enough(reported, over, figure):
    odd = figure({"components.rounding": 513, "peak.allocated": 4 * GIB + 1})
    assert reported(over(estimates=[odd])).to_do(quoted).endswith("or write gib=4.1.")


def test_a_budget_of_a_card_gets_the_advice_to_name_a_larger_card(reported, over):
    one = reported(over(budget={"gpu": "A100-40GB"}))
    assert one.to_do(quoted).endswith("or name a larger card.")


def locked(status, reason):
    return {"status": status, "reason": reason, "base": None, "limit_bytes": 2 * GIB}


@pytest.mark.parametrize(
    ("status", "verdict", "level", "word"),
    [
        ("unchanged", "within", "fine", "within budget"),
        ("shrunk", "within", "notice", "shrunk"),
        ("not comparable", "unset", "warning", "unset"),
    ],
)
def test_an_entry_that_is_out_of_date_asks_for_an_update(reported, row, status, verdict, level, word):
    one = reported(row(verdict=verdict, lock=locked(status, "why")))
    assert (one.level, one.word) == (level, word)
    asked = "Update the lock file: <pytest --membudget --membudget-update>."
    assert one.to_do(quoted) == ("" if status == "unchanged" else asked)


@pytest.mark.parametrize(
    ("status", "allowed", "verdict", "level", "word"),
    [
        ("grown", None, "over", "failure", "over budget"),
        ("grown", False, "over", "failure", "grown too much"),
        ("grown", False, "within", "failure", "grown too much"),
        ("grown", None, "within", "notice", "grown, and allowed"),
        ("unchanged", True, "over", "warning", "over since before"),
        ("not comparable", None, "within", "warning", "not comparable"),
        ("shrunk", None, "within", "notice", "shrunk"),
        ("new", None, "within", "notice", "new"),
        ("unchanged", None, "within", "fine", "unchanged"),
        # a state makes no failure green
        ("unchanged", None, "over", "failure", "over budget"),
        ("not comparable", None, "over", "failure", "over budget"),
        ("shrunk", None, "over", "failure", "over budget"),
        ("unchanged", None, "skipped", "notice", "skipped"),
        ("grown", False, "undecided", "failure", "grown too much"),
        ("unchanged", None, "undecided", "warning", "undecided"),
        ("unchanged", None, "unset", "warning", "unset"),
    ],
)
def test_the_state_of_a_comparison(reported, row, over, comparison, status, allowed, verdict, level, word):
    made = over() if verdict == "over" else row(verdict=verdict)
    before = 4 * GIB if status == "unchanged" else 3 * GIB
    one = reported({**made, "comparison": comparison(before, status=status, allowed=allowed)})
    assert (one.level, one.word) == (level, word)


@pytest.mark.parametrize(
    ("made", "word"), [("over", "over until 2999-12-31"), ("row", "grown until 2999-12-31")]
)
def test_an_entry_with_a_day_excuses(request, reported, comparison, made, word):
    entry = {"bytes": 4 * GIB, "until": "2999-12-31", "reason": "soon"}
    lock = {**locked("unchanged", "soon (up to 4.00 GiB)"), "base": entry, "allowed": True}
    one = reported(request.getfixturevalue(made)(lock=lock, comparison=comparison()))
    assert (one.level, one.word) == ("notice", word)
    assert one.explained(quoted).endswith(f"{word.capitalize()}: <soon (up to 4.00 GiB)>.")


def test_growth_is_reported_with_its_line(reported, row, comparison):
    one = reported(row(comparison=comparison()))
    assert one.explained(quoted).endswith("That is 1.00 GiB more than at the base (3.00 GiB).")
    assert one.to_do(quoted) == (
        "Undo the growth, first at <src/model.py:57>, or allow it: a larger max_growth, or an entry in "
        "membudget.lock.yaml with until."
    )
    [cause] = one.causes(5)
    assert cause_text(cause, quoted) == (
        "+1.00 GiB activations of <layers.*.mlp> at <src/model.py:57> (was <src/model.py:55>) (<aten::gelu>)"
    )


def test_growth_is_undone_at_the_line_that_calls_and_at_none_where_a_sentence_explains_it(
    reported, row, comparison
):
    called = comparison()
    called["findings"][0]["details"] = ["x = model(x)", "src/train.py:20"]
    assert "growth, first at <src/train.py:20>, or" in reported(row(comparison=called)).to_do(quoted)
    for kind, place in (("recompute", ""), ("count", ""), ("peak", ", first at")):
        more = {"differences": [{"kind": kind, "head": "9", "base": "8"}]}
        explained = reported(row(comparison={**comparison(), **more}))
        assert explained.to_do(quoted).startswith(f"Undo the growth{place}")


def test_what_has_shrunk_can_be_tightened(reported, row, comparison):
    shrunk = comparison(5 * GIB, status="shrunk", allowed=None)
    one = reported(row(comparison=shrunk))
    assert "1.00 GiB less than at the base (5.00 GiB)" in one.explained(quoted)
    assert one.to_do(quoted) == "The budget can be tightened to gib=4."
    enough = row(comparison=shrunk, budget={"gib": 4}, limit_bytes=4 * GIB)
    assert reported(enough).to_do(quoted) == ""


def test_without_findings_the_holders_explain(reported, over):
    [cause] = reported(over()).causes(1)
    assert cause_text(cause, quoted) == (
        "3.00 GiB parameters of <layers.*.weight> x2 at <src/model.py:41> (<aten::empty>)"
    )


def test_a_measurement_is_the_figure_where_there_is_one(reported, row, figure):
    measured = figure({"kind": "measured", "peak.allocated": 4 * GIB + 512, "components.rounding": 1024})
    one = reported(row(measurements=[{**measured, "timeline": None}]))
    assert one.peak_bytes == 4 * GIB + 512


def test_of_several_ranks_the_worst_is_reported(reported, over, figure):
    second = figure({"rank": 3, "peak.allocated": 5 * GIB, "components.rounding": 512 + GIB})
    one = reported(over(estimates=[figure(), second]))
    assert one.explained(quoted) == "Takes 5.00 GiB on rank 3, 2.00 GiB over its budget of 3.00 GiB."


def test_the_worst_comes_first(document, row, over, comparison):
    found = reported_tests(
        document(
            row("fine"),
            over("small", limit_bytes=4 * GIB - 1),
            row("noticed", comparison=comparison(status="shrunk", allowed=None)),
            over("large", limit_bytes=GIB),
            over("before", comparison=comparison(status="unchanged", allowed=True)),
        )
    )
    assert [one.result.nodeid for one in found] == ["large", "small", "before", "noticed", "fine"]


def test_the_headline_counts(document, row, over, comparison):
    assert headline(reported_tests(document())) == "no test has a memory budget"
    assert headline(reported_tests(document(row()))) == "1 test, none fails"
    some = [over("a"), over("b"), row("c", comparison=comparison()), row("d")]
    assert headline(reported_tests(document(*some))) == "1 grown too much, 2 over budget, of 4 tests"
    old = [over("a", comparison=comparison(status="unchanged", allowed=True)), row("b")]
    assert headline(reported_tests(document(*old))) == "2 tests, none fails; 1 over since before"


def test_what_is_to_be_seen(document, row, over):
    assert not is_notable(document(row()))
    assert is_notable(document(over()))
    assert is_notable(document(row(), comparison={"removed": ["gone"]}))
    assert not is_notable(document(row(), comparison={"base": "main"}))


AGAINST_MAIN = {"base": "main"}


@pytest.mark.parametrize(
    ("status", "allowed", "before", "expected"),
    [
        ("unchanged", None, 4 * GIB, False),
        ("grown", None, 3 * GIB, True),
        ("unchanged", True, 4 * GIB, False),
        ("shrunk", True, 5 * GIB, True),
        ("new", None, None, True),
        ("not comparable", None, None, True),
        ("shrunk", None, 5 * GIB, True),
        ("grown", False, 3 * GIB, True),
    ],
)
def test_with_a_base_what_has_changed_is_to_be_seen(
    document, row, over, comparison, status, allowed, before, expected
):
    known = comparison(before, status=status, allowed=allowed, findings=[])

    test = over if allowed else row

    assert is_notable(document(test(comparison=known), comparison=AGAINST_MAIN)) is expected


def test_with_a_base_failures_and_new_skips_are_to_be_seen_and_old_skips_are_not(document, row):
    skipped = row(verdict="skipped", estimates=[])

    assert is_notable(document(row(verdict="error"), comparison=AGAINST_MAIN))
    assert not is_notable(document(skipped, comparison=AGAINST_MAIN))
    assert is_notable(document(skipped, comparison={**AGAINST_MAIN, "skipped": [skipped["nodeid"]]}))


def test_what_has_changed_comes_before_what_is_over_since_before(document, row, over, comparison):
    old = over("a", comparison=comparison(4 * GIB, status="unchanged", allowed=True))
    shrunk = row("b", comparison=comparison(5 * GIB, status="shrunk", allowed=None))
    found = reported_tests(document(old, row("c"), shrunk, over("d")))

    assert [one.result.nodeid for one in found] == ["d", "b", "a", "c"]


@pytest.mark.parametrize(
    ("location", "place"),
    [
        ("src/model.py:41", ("src/model.py", 41)),
        ("a b/größe.py:1", ("a b/größe.py", 1)),
        (None, None),
        ("model.py", None),
        (":3", None),
        ("model.py:x", None),
        ("model.py:-1", None),
        ("model.py:٣", None),
        ("model.py:99999999999", None),
        ("/etc/passwd:1", None),
        ("../../model.py:1", None),
        ("src/../../x.py:1", None),
        ("C:/x.py:1", None),
        ("src\\x.py:1", None),
    ],
)
def test_only_relative_paths_are_places(location, place):
    assert place_in(location) == place
