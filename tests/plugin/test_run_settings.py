"""[tool.membudget] and the command line: what they change, and how a mistake in them is refused."""

import pytest

MALFORMED = """
    import pytest

    @pytest.mark.mem_budget(gib=0)  # a test that needs no worker
    def test_it():
        pass
    """


def table(text):
    return {"pyproject.toml": f"[tool.membudget]\n{text}\n", "test_budgets.py": MALFORMED}


@pytest.mark.parametrize(
    ("text", "said", "way"),
    [
        ("gup = 'H100-80GB'", ["gup", "did you mean gpu?"], ()),
        ("timeout = 0", ["timeout = 0", "timeout = 300"], ("-n2",)),
    ],
)
def test_a_setting_that_cannot_be_used_is_refused_with_file_key_and_remedy(session_of, text, said, way):
    run = session_of(table(text), "--membudget", *way, report=False)

    assert run.status == 4
    assert "pyproject.toml:1: [tool.membudget] " in run.err
    assert all(part in run.err for part in said), run.err
    assert len(run.err.strip().splitlines()) == 1
    assert "INTERNALERROR" not in run.out + run.err


def test_without_the_flag_a_mistake_in_the_table_stops_nothing(session_of):
    run = session_of(table("gup = 'H100-80GB'"), report=False)

    assert run.status == 0
    assert run.outcomes == {"test_it": "skipped"}


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--membudget-gpu=H100-80BG", "H100-80GB"),
        ("--membudget-measure=always", "invalid choice"),
        ("--membudget=every", "ignored explicit argument 'every'"),
        ("--membudget-compare=main", "is in no git repository"),
        ("--membudget-compare=missing.json", "missing.json: cannot be read"),
        ("--membudget-compare=", "write a git reference"),
    ],
)
def test_an_option_that_cannot_be_used_is_refused(session_of, option, said):
    run = session_of({"test_budgets.py": MALFORMED}, "--membudget", option, report=False)

    assert run.status == 4
    assert option.split("=")[0] in run.err
    assert said in run.err


BUDGETS = """
    import pytest
    import sys

    from holding import hold

    def card():
        return sys.modules["torch"].cuda.get_device_name()

    @pytest.mark.mem_budget()
    def test_no_limit_but_a_card():
        assert "A100" in card()
        hold(0.5)

    @pytest.mark.mem_budget(gpu="RTX-4090")
    def test_own_card():
        assert "4090" in card()
        hold(0.5)

    @pytest.mark.mem_budget(metric="allocated")
    def test_own_metric():
        hold(0.5)
    """


@pytest.mark.parametrize(
    ("settings", "option", "way"),
    [
        ("gpu = 'A100-40GB'\nmetric = 'device'", (), ()),
        ("gpu = 'H100-80GB'\nmetric = 'device'", ("--membudget-gpu=A100-40GB",), ("-n2",)),
    ],
    ids=["table", "command line over table, xdist"],
)
def test_settings_hold_where_a_mark_says_nothing_else(session_of, settings, option, way):
    if way:
        pytest.importorskip("xdist")
    files = {"pyproject.toml": f"[tool.membudget]\n{settings}\n", "test_budgets.py": BUDGETS}

    run = session_of(files, "--membudget", *option, *way)

    assert set(run.outcomes.values()) == {"passed"}, run.out
    budgets = {name: (row["budget"]["gpu"], row["budget"]["metric"]) for name, row in run.rows.items()}
    assert budgets == {
        "test_no_limit_but_a_card": ("A100-40GB", "device"),
        "test_own_card": ("RTX-4090", "device"),
        "test_own_metric": ("A100-40GB", "allocated"),
    }
