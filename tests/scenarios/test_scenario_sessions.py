"""Scenario files in sessions: collected, chosen, estimated, failed and reported as marked tests are."""

import re
import textwrap

import pytest

#: 2 * 1000 * 64 (embedding, head) + 4 layers of 4 * 64**2 (attention) + 3 * 64 * 128 (feed forward) + 2 * 64
#: (norms), and the last norm
PARAMETERS = 2 * 64_000 + 4 * (16_384 + 24_576 + 128) + 64

MODEL = """{config: {model_type: llama, hidden_size: 64, intermediate_size: 128, num_hidden_layers: 4,
        num_attention_heads: 4, vocab_size: 1000}}"""
FILES = {
    "jobs.membudget.yaml": f"""
        defaults:
          model: {MODEL}
          sequence: 128
          implementation: plain
        budgets:
          - name: fits
            gib: 1
          - name: too-large
            gib: 0.001
            implementation: formulas
            gpus: 4
          - name: steps
            gib: 1
            implementation: formulas
            grid:
              optimizer.implementation: [foreach, fused]
          - name: broken
            gibb: 3
            micro_batch: none
        """,
    "other.membudget.yml": f"""
        budgets:
          - name: other
            gib: 1
            implementation: formulas
            model: {MODEL}
        """,
}
OTHER = {"other.membudget.yml": FILES["other.membudget.yml"]}
NAMES = [
    "fits",
    "too-large",
    "steps[implementation=foreach]",
    "steps[implementation=fused]",
    "broken",
    "other",
]


def test_each_budget_is_a_test(run):
    assert run.outcomes == {**dict.fromkeys(NAMES, "passed"), "too-large": "failed", "broken": "failed"}
    assert run.status == pytest.ExitCode.TESTS_FAILED


def test_a_broken_budget_reports_all_its_mistakes_with_their_places(run):
    text = run.text("broken")

    assert "jobs.membudget.yaml:19: gibb: 3: there is no field gibb; did you mean gib?" in text
    assert "jobs.membudget.yaml:20: micro_batch: none: write a whole number of at least 1" in text


def test_rows_are_as_those_of_marked_tests(run):
    row = run.rows["fits"]

    assert [entry["nodeid"].partition("::")[2] for entry in run.report["tests"]] == NAMES
    assert row["nodeid"] == "jobs.membudget.yaml::fits"
    assert (row["location"], row["verdict"]) == ("jobs.membudget.yaml:7", "within")
    assert row["budget"]["gib"] == 1
    (estimate,) = row["estimates"]
    assert estimate["kind"] == "traced"
    assert estimate["components"]["parameters"] == PARAMETERS * 2  # bf16
    # two moments of AdamW in bf16; step counters are on the host
    assert estimate["components"]["optimizer_states"] == PARAMETERS * 4
    assert sum(estimate["components"].values()) == estimate["peak"]["allocated"]


def test_formulas_are_shown_by_their_name(run):
    assert run.rows["other"]["estimates"][0]["kind"] == "analytic"


# The rest in this process, and by formulas alone: nothing in it needs another one


FORMULAS = {
    name: text.replace("implementation: plain", "implementation: formulas") for name, text in FILES.items()
}


@pytest.fixture
def run_here(pytester):
    """``run_here(files, *args)`` runs pytest in this process: its result, with the outcomes by name."""

    def run(files, *args):
        for name, text in files.items():
            (pytester.path / name).write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")
        result = pytester.runpytest_inprocess("-v", *args)
        found = re.findall(r"^\S+?::(\S+) ([A-Z]+)", result.stdout.str(), re.MULTILINE)
        result.outcomes = {name: word.lower() for name, word in found}
        return result

    return run


def test_without_the_flag_they_are_skipped_with_the_reason(run_here):
    result = run_here(FILES, "-rs")

    result.assert_outcomes(skipped=len(NAMES))
    assert "has a GPU-memory budget; run pytest with --membudget to check it" in result.stdout.str()


@pytest.mark.parametrize(
    ("args", "names"),
    [
        (("-k", "steps and fused"), ["steps[implementation=fused]"]),
        (("-m", "mem_budget", "-k", "fits or other"), ["fits", "other"]),
        (("-m", "not mem_budget"), []),
        (("jobs.membudget.yaml::steps[implementation=foreach]",), ["steps[implementation=foreach]"]),
        (("other.membudget.yml",), ["other"]),
        (("--deselect=jobs.membudget.yaml",), ["other"]),
    ],
)
def test_they_are_chosen_as_tests_are(run_here, args, names):
    assert list(run_here(FORMULAS, "--membudget", *args).outcomes) == names


def test_an_xfail_mark_of_a_hook_expects_too_much_memory_but_no_mistake(run_here):
    marks = """
        import pytest

        def pytest_collection_modifyitems(items):
            for item in items:
                item.add_marker(pytest.mark.xfail(strict=False))
        """
    result = run_here({**FORMULAS, "conftest.py": marks}, "--membudget")

    assert result.outcomes["too-large"] == "xfail"
    assert result.outcomes["broken"] == "failed"


def test_a_library_that_is_not_there_is_named_with_its_installation(run_here, monkeypatch):
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    files = {"a.membudget.yaml": f"budgets: [{{name: a, gib: 1, model: {MODEL}}}]\n"}
    result = run_here(files, "--membudget")

    assert result.outcomes == {"a": "failed"}
    text = " ".join(result.stdout.str().split())
    assert (
        "transformers is not installed; run pip install transformers, or write implementation: plain" in text
    )


def test_a_file_that_is_no_file_of_budgets_fails_its_own_collection(run_here):
    """What such files are told is in ``test_scenario_reading.py``."""
    files = {"bad.membudget.yaml": "budgets: [\n", **OTHER}

    result = run_here(files, "--membudget", "--continue-on-collection-errors")

    assert "bad.membudget.yaml:2: this is no YAML" in result.stdout.str()
    assert "Traceback" not in result.stdout.str()
    assert result.outcomes["other"] == "passed"
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_other_yaml_files_are_let_be(run_here):
    result = run_here({"budgets.yaml": "budgets: [\n", "membudget.yaml": "budgets: [\n"}, "--membudget")

    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
