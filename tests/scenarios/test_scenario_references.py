"""``scenario=`` of a mark: the analytic figure beside the traced one, and references that lead nowhere."""

import pytest

FILES = {
    "sub/jobs.membudget.yaml": """
        defaults:
          model: {config: {model_type: llama, hidden_size: 64, intermediate_size: 128, num_hidden_layers: 4,
            num_attention_heads: 4, vocab_size: 1000}}
        budgets:
          - {name: small, gib: 1}
          - {name: four, gib: 1, gpus: 4}
          - {name: broken, gib: none}
        """,
    "sub/test_it.py": """
        import pytest
        from holding import hold

        FILE = "jobs.membudget.yaml"

        @pytest.mark.mem_budget(gib=1, scenario=f"{FILE}::small")
        def test_within():
            hold(0.5)

        @pytest.mark.mem_budget(gib=0.25, scenario=f"{FILE}::small")
        def test_over():
            hold(0.5)

        @pytest.mark.mem_budget(gib=1, metric="device", gpu="T4", scenario=f"{FILE}::small")
        def test_device():
            hold(0.5)

        @pytest.mark.mem_budget(gib=1, scenario=f"{FILE}::smal")
        def test_no_such_name():
            hold(0.5)

        @pytest.mark.mem_budget(gib=1, scenario="job.membudget.yaml::small")
        def test_no_such_file():
            hold(0.5)

        @pytest.mark.mem_budget(gib=1, scenario=f"{FILE}::broken")
        def test_broken():
            hold(0.5)

        @pytest.mark.mem_budget(gib=1, scenario=f"{FILE}::four")
        def test_of_four():
            hold(0.5)
        """,
}
OUTCOMES = {
    "small": "passed", "four": "passed", "broken": "failed", "test_within": "passed", "test_over": "failed",
    "test_device": "passed", "test_no_such_name": "failed", "test_no_such_file": "failed",
    "test_broken": "failed", "test_of_four": "failed",
}  # fmt: skip


@pytest.fixture(scope="module")
def run(session_of):
    return session_of(FILES, "--membudget")


def test_only_what_is_traced_decides(run):
    assert run.outcomes == OUTCOMES
    assert run.rows["test_over"]["reason"] == "0.25 GiB over its budget of 0.25 GiB"


def test_the_row_has_both_figures(run):
    traced, analytic = run.rows["test_within"]["estimates"]

    assert (traced["kind"], analytic["kind"]) == ("traced", "analytic")
    assert traced["peak"]["allocated_bytes"] == 2**29
    assert analytic == {**run.rows["small"]["estimates"][0], "seconds": analytic["seconds"]}


def test_the_analytic_figure_is_of_the_tests_metric(run):
    traced, analytic = run.rows["test_device"]["estimates"]

    assert (traced["metric"], analytic["metric"]) == ("device", "device")


def test_figures_that_disagree_are_reported(run):
    [line] = [line for line in run.lines if line.startswith("disagreement: sub/test_it.py::test_within: ")]

    assert ": analytic " in line
    assert "traced 0.50 GiB, ratio 0." in line
    assert "; the analytic figure has 0.50 GiB less " in line


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("test_no_such_name", "jobs.membudget.yaml has no smal; did you mean small?"),
        ("test_no_such_file", "cannot be read (No such file or directory); write the file's path from "),
        ("test_broken", "jobs.membudget.yaml:7: gib: none: write a finite number of GiB above 0"),
        ("test_of_four", "is for 4 GPUs and the test for 1; write gpus=4"),
    ],
)
def test_a_reference_that_cannot_be_followed_is_a_failure_with_its_place(run, name, told):
    assert told in run.text(name)
    assert run.text(name).lstrip().startswith("sub/test_it.py:")
    assert run.rows[name]["estimates"] == []
