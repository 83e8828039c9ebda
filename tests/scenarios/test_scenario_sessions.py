"""Scenario files in sessions: collected, chosen, estimated, failed and reported as marked tests are."""

import re
import textwrap

import pytest

#: 2 * 1000 * 64 (embedding, head) + 4 layers of 4 * 64**2 (attention) + 3 * 64 * 128 (feed forward) + 2 * 64
#: (norms), and the last norm
PARAMETERS = 2 * 64_000 + 4 * (16_384 + 24_576 + 128) + 64
LLAMA_8B = 8_030_261_248  # the model card of meta-llama/Meta-Llama-3-8B

MODEL = """{config: {model_type: llama, hidden_size: 64, intermediate_size: 128, num_hidden_layers: 4,
        num_attention_heads: 4, vocab_size: 1000}}"""
FILES = {
    "jobs.membudget.yaml": f"""
        defaults:
          model: {MODEL}
          sequence: 128
        budgets:
          - name: fits
            gib: 1
          - name: too-large
            gib: 0.001
            gpus: 4
            reason: a small one
          - name: steps
            gib: 1
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
            model: {MODEL}
        """,
}
OTHER = {"other.membudget.yml": FILES["other.membudget.yml"]}
LOOKOUT = {
    "conftest.py": """
        import sys
        from pathlib import Path

        def pytest_unconfigure():
            Path("imported").write_text(" ".join(sys.modules))
        """
}
LLAMA = (
    "{config: {model_type: llama, hidden_size: 4096, intermediate_size: 14336, num_hidden_layers: 32, "
    "num_attention_heads: 32, num_key_value_heads: 8, vocab_size: 128256}}"
)
NAMES = [
    "fits",
    "too-large",
    "steps[implementation=foreach]",
    "steps[implementation=fused]",
    "broken",
    "other",
]


@pytest.fixture(scope="module")
def run(session_of):
    return session_of(FILES, "--membudget")


def test_each_budget_is_a_test(run):
    assert run.outcomes == {**dict.fromkeys(NAMES, "passed"), "too-large": "failed", "broken": "failed"}
    assert run.status == pytest.ExitCode.TESTS_FAILED


def test_the_failure_shows_the_sum_the_terms_and_the_moment(run):
    text = run.text("too-large").strip().splitlines()

    assert text[0].startswith("rank 0 of 4: ")
    assert text[0].endswith(" over its budget of 0.001 GiB")
    assert text[1] == "jobs.membudget.yaml:8: gib: 0.001, gpus: 4, reason: a small one"
    assert any(line.startswith("Peak memory of rank 0 of 4 (analytic):") for line in text)
    terms = text[text.index("What holds it:") + 1 :]
    assert all(line.split()[1] in ("GiB", "MiB", "KiB", "B") for line in terms[:10])
    assert any("activations" in line and " = b*s*" in line for line in terms[:10])
    assert any("the peak is at: " in line for line in text)
    assert run.message("too-large").strip().startswith("BudgetExceeded: rank 0 of 4: ")


def test_a_broken_budget_reports_all_its_mistakes_with_their_places(run):
    text = run.text("broken")

    assert "jobs.membudget.yaml:17: gibb: 3: there is no field gibb; did you mean gib?" in text
    assert "jobs.membudget.yaml:18: micro_batch: none: write a whole number of at least 1" in text


def test_rows_are_as_those_of_marked_tests(run):
    row = run.rows["fits"]

    assert [entry["nodeid"].partition("::")[2] for entry in run.report["tests"]] == NAMES
    assert row["nodeid"] == "jobs.membudget.yaml::fits"
    assert (row["file"], row["line"], row["verdict"]) == ("jobs.membudget.yaml", 6, "within")
    assert row["budget"]["gib"] == 1
    assert row["not_measured"] == "analytic scenario"
    (estimate,) = row["estimates"]
    assert estimate["kind"] == "analytic"
    assert estimate["components"]["parameters"] == PARAMETERS * 2  # bf16
    assert estimate["components"]["optimizer_states"] == PARAMETERS * 4  # two moments of AdamW in bf16
    assert sum(estimate["components"].values()) == estimate["peak"]["allocated_bytes"]


def test_nothing_heavy_is_imported_for_them(session_of):
    run = session_of({**FILES, **LOOKOUT}, "--membudget", report=False, is_cold=True)
    imported = (run.folder / "imported").read_text().split()

    assert "pytest_membudget.formulas.estimate" in imported
    assert not {"torch", "numpy", "transformers"} & set(imported)


def test_collecting_alone_prints_the_table_and_gates(session_of):
    run = session_of(FILES, "--membudget", "--collect-only")

    table = "\n".join(run.summary)
    assert run.status == pytest.ExitCode.TESTS_FAILED
    assert all(f"::{name} " in table for name in NAMES)
    assert "too-large\nrank 0 of 4: " in run.out
    assert {name: row["verdict"] for name, row in run.rows.items()} == {
        **dict.fromkeys(NAMES, "within"),
        "too-large": "over",
        "broken": "error",
    }


# The rest in this process: nothing in it needs another one


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
        (("jobs.membudget.yaml::fits",), ["fits"]),
        (("jobs.membudget.yaml::steps[implementation=foreach]",), ["steps[implementation=foreach]"]),
        (("other.membudget.yml",), ["other"]),
        (("--deselect=jobs.membudget.yaml",), ["other"]),
    ],
)
def test_they_are_chosen_as_tests_are(run_here, args, names):
    assert list(run_here(FILES, "--membudget", *args).outcomes) == names


def test_last_failed_runs_the_failures_alone(run_here):
    run_here(FILES, "--membudget")

    assert run_here({}, "--membudget", "--lf").outcomes == {"too-large": "failed", "broken": "failed"}


def test_an_xfail_mark_of_a_hook_expects_too_much_memory_but_no_mistake(run_here):
    marks = """
        import pytest

        def pytest_collection_modifyitems(items):
            for item in items:
                item.add_marker(pytest.mark.xfail(strict=False))
        """
    result = run_here({**FILES, "conftest.py": marks}, "--membudget")

    assert result.outcomes["too-large"] == "xfail"
    assert result.outcomes["broken"] == "failed"


def test_requiring_measurements_does_not_fail_what_cannot_be_measured(run_here):
    assert run_here(OTHER, "--membudget", "--membudget-measure=require").outcomes == {"other": "passed"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("budgets: [\n", "bad.membudget.yaml:2: this is no YAML"),
        ("budget: []\n", "bad.membudget.yaml:1: there is no key budget here; did you mean budgets?"),
        ("", "bad.membudget.yaml: there are no budgets in it"),
    ],
)
def test_a_file_that_is_no_file_of_budgets_fails_its_own_collection(run_here, text, told):
    files = {"bad.membudget.yaml": text, **OTHER}

    result = run_here(files, "--membudget", "--continue-on-collection-errors")

    assert told in result.stdout.str()
    assert "Traceback" not in result.stdout.str()
    assert result.outcomes["other"] == "passed"
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_other_yaml_files_are_let_be(run_here):
    result = run_here({"budgets.yaml": "budgets: [\n", "membudget.yaml": "budgets: [\n"}, "--membudget")

    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_the_card_of_the_command_line_is_their_budget(run_here):
    result = run_here(
        {"a.membudget.yaml": f"budgets: [{{name: a, model: {LLAMA}}}]\n"},
        "--membudget",
        "--membudget-gpu=RTX-4090",
    )

    assert result.outcomes == {"a": "failed"}
    assert "what RTX-4090 can hold" in result.stdout.str()
    assert re.search(rf"parameters +{LLAMA_8B * 2 / 2**30:.2f} GiB", result.stdout.str())
