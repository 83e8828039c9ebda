"""Nothing that is written for the terminal is wider than it, and nothing that people copy is cut."""

import json
import os

import pytest

from pytest_membudget.commands.fit import result_lines
from pytest_membudget.commands.fit_search import FAILS, FITS, TOO_LARGE, Tried
from pytest_membudget.commands.main import main
from pytest_membudget.commands.terminal import print_lines
from pytest_membudget.reporting.files.json_file import torch_of

GIB = 2**30
ALONE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "CI": ""}
ASKED = ("-p", "pytest_membudget.plugin", "-p", "pytest_membudget.testing", "--membudget")
LONG = "tests/training/test_the_memory_of_fine_tuning.py"
WRITE = "steps.linear_cross_entropy for torch.nn.functional.cross_entropy(logits, labels), chunks=8"
READ = f"{LONG}:14 (transformers/models/llama/modeling_llama.py:164): reads an int64 value: taken to be 1"
#: Budgets that nothing exceeds; as they are written, longer than a line.
LARGE = dict.fromkeys(("activations", "gradients", "optimizer_states", "parameters", "temporaries"), 99)
REASON = "the tokens of the longest sequence of the data set are more than the model has positions for"
FILES = {
    "conftest.py": f"""
        from pytest_membudget import testing
        from pytest_membudget.caveats import LIBRARY, READ, Caveat

        WRITE, TEXT, REASON = {WRITE!r}, {READ!r}, {REASON!r}
        CAVEATS = [
            Caveat(READ, TEXT),
            Caveat(LIBRARY, "some_library::an_operator_of_an_extension, called 48 times: " + REASON),
        ]
        GIVEN = {{
            "test_over[micro_batch_size=8]": testing.takes(3, tried={{WRITE: 1.5}}, caveats=CAVEATS),
            "test_grown[micro_batch_size=8]": testing.takes(3, activations=2),
            "test_shrunk_since_the_lock_file_was_written": testing.takes(1),
            "test_new_and_without_an_entry_in_the_lock_file": testing.takes(1.125),
            "test_skips_itself": testing.skips(REASON),
            "test_out_of_memory": testing.out_of_memory("aten::_scaled_dot_product_flash_attention", TEXT),
            "test_raises": testing.raises("ValueError: " + REASON),
            "test_lost": testing.error(f"the worker was killed: {{REASON}}\\n  {{REASON}}, its last lines"),
            "test_of_ranks": testing.takes(3, host_gib=40),
            "test_small": testing.takes(0.5, caveats=CAVEATS[:1]),
            "test_both_figures": testing.takes(0.5),
            "test_measured_is_another": testing.takes(1),
            "test_grown_since_the_base": testing.takes(3),
            "test_over_and_excused": testing.takes(3),
        }}
        MEASURED = {{"test_measured_is_another": testing.takes(1.5), "test_both_figures": testing.takes(2.5)}}

        def by_nodeid(given):
            program = {{"jobs.membudget.yaml::a-program-without-a-limit": testing.takes(3.125)}}
            return {{f"{LONG}::{{name}}": one for name, one in given.items()}} | program

        def pytest_membudget_estimates():
            return testing.GivenEstimates(by_nodeid(GIVEN), measured=by_nodeid(MEASURED))
        """,
    LONG: f"""
        import pytest

        budget = pytest.mark.mem_budget(gib=2, components={LARGE!r})
        bare = pytest.mark.mem_budget
        of_size = pytest.mark.parametrize("size", [8], ids=["micro_batch_size=8"])

        @budget
        @of_size
        def test_over(size): ...

        @bare
        @of_size
        def test_grown(size): ...

        @bare
        def test_shrunk_since_the_lock_file_was_written(): ...
        @bare
        def test_new_and_without_an_entry_in_the_lock_file(): ...
        @budget
        def test_skips_itself(): ...
        @pytest.mark.mem_budget(gpu="RTX-4090")
        def test_out_of_memory(): ...
        @budget
        def test_raises(): ...
        @budget
        def test_lost(): ...
        @pytest.mark.mem_budget(gib=2, gpus=16, host_gib=100, gpu="H100-80GB", max_growth="5% + 256 MiB")
        def test_of_ranks(): ...
        @pytest.mark.mem_budget(gib=400)
        def test_small(): ...
        @pytest.mark.mem_budget(gib=1)
        def test_both_figures(): ...
        @budget
        def test_measured_is_another(): ...
        @pytest.mark.mem_budget(gib=8, max_growth="1%")
        def test_grown_since_the_base(): ...
        @budget
        def test_over_and_excused(): ...
        @pytest.mark.skipif(True, reason={REASON!r})
        @budget
        def test_skipped_by_its_mark(): ...
        @pytest.mark.mem_budget(gibs=2)
        def test_misspelt(): ...
        """,
    "jobs.membudget.yaml": """
        defaults:
          model: {config: {model_type: llama, hidden_size: 64, intermediate_size: 128, num_hidden_layers: 4,
            num_attention_heads: 4, vocab_size: 1000}}
        budgets:
          - {name: a-small-model, gib: 0.0001}
          - {name: a-program, script: a_program_that_does_not_exist.py --batch_size=12, gib: 2}
          - {name: a-program-without-a-limit, script: program.py}
        """,
    "program.py": "",
    "membudget.lock.yaml": f"""
        version: 1
        tests:
          {LONG}::test_grown[micro_batch_size=8]: &entry
            bytes: 2147483648
            metric: allocated
            components: {{inputs: 2147483648}}
            gpus: 1
            gpu: H100-80GB
            device: traced
            torch: TORCH
          {LONG}::test_shrunk_since_the_lock_file_was_written: *entry
          {LONG}::test_that_nobody_has_any_longer: *entry
          {LONG}::test_over_and_excused:
            bytes: 5368709120
            until: 2999-12-31
            reason: {REASON}
        """,
}
#: What people copy: node ids, marks, code, commands and reasons.
WHOLE = (
    WRITE,
    "run pytest --membudget --membudget-update, or write gib: 3.2",
    f"unset: {LONG}::test_new_and_without_an_entry_in_the_lock_file: takes",
    f"unchecked: {LONG}::test_skipped_by_its_mark: skipped in this process ({REASON})",
    f"shrunk: {LONG}::test_shrunk_since_the_lock_file_was_written",
    "--membudget-update=raise",
    f"{LONG}:7: mem_budget(gib=2, components={LARGE!r})",
    f"some_library::an_operator_of_an_extension, called 48 times: {REASON}",
    f"ValueError: {REASON}",
    f"aten::_scaled_dot_product_flash_attention, at {READ}",
    f"{REASON}, its last lines",
    "Ranks by their peaks (16 of 16 estimated):",
    "disagreement: ",
    "estimate measured ratio",
    "a_program_that_does_not_exist.py",
    f"grown and allowed: {LONG}::test_over_and_excused",
    f"grown: takes 2.00 GiB (200.0%) more than at the base; max_growth='1%' allows less {LONG}:",
    f"removed since the base: {LONG}::test_that_was_there_at_the_base",
    "mem_budget(gibs=2)",
    "* data assumed or memory not modelled; --membudget-strict fails none of these 1",
)


def wider(text, width):
    """The lines of ``text`` that are wider than ``width`` and could be folded."""
    return [line for line in text.splitlines() if len(line) > width and len(line.split()) > 1]


def ours(text):
    """``text`` without pytest's own lines."""
    theirs = (
        "- generated xml file: ",
        "platform ",
        "rootdir: ",
        "plugins: ",
        "cachedir: ",
        "configfile: ",
        "FAILED ",
        "ERROR ",
    )
    return "\n".join(line for line in text.splitlines() if not line.startswith(theirs))


@pytest.fixture
def base(raw, row):
    """The report of the base: what some of the tests took there."""
    names = ("test_grown_since_the_base", "test_over_and_excused", "test_that_was_there_at_the_base")
    return raw(
        *(row(f"{LONG}::{name}", estimates=[inputs(row, 1)]) for name in names), torch=torch_of(os.environ)
    )


def inputs(row, gib):
    figure = row()["estimates"][0]
    held = {"peak": dict.fromkeys(figure["peak"], gib * GIB), "components": {"inputs": gib * GIB}}
    return {**figure, **held, "holders": [], "timeline": None}


@pytest.fixture
def head(raw, row, over, figure, comparison, advice):
    """A report with holders and changes, whose names and lines are long."""
    long = {
        "holders.0.module": "model.layers.*." + "attention." * 12 + "weight",
        "holders.0.location": "transformers/models/llama/modeling_llama.py:164",
        "holders.0.source": f"outputs = self.attention({'hidden_states, ' * 10})",
        "holders.0.largest_bytes": 3 * GIB // 2,
    }
    change = {
        "bytes": GIB, "component": "activations", "module": "model.layers.*.mlp", "operator": "aten::gelu",
        "location": "transformers/models/llama/modeling_llama.py:164", "count": 12, "largest_bytes": GIB // 2,
        "base": "transformers/models/llama/modular_llama.py:155", "source": "x = f(" * 20,
    }  # fmt: skip
    names = ("transformers", "tokenizers", "accelerate")
    versions = {name: {"base": "4.48.2", "head": "4.48.3.post1"} for name in names}
    other = {
        "kind": "dtype",
        "head": "float32",
        "base": "bfloat16",
        "details": ["model.layers.*.mlp.down"] * 4,
    }
    grown = comparison(findings=[change], distributions=versions, differences=[other], reason=REASON)
    return raw(
        over(f"{LONG}::test_held", estimates=[figure(long)], advice=advice),
        row(f"{LONG}::test_grown_since_the_base", estimates=[figure(long)], comparison=grown),
        distributions={"transformers": "4.48.3", "tokenizers": "0.21.0", "accelerate": "1.3.0"},
    )


@pytest.mark.parametrize("width", [80, 120])
def test_a_session_with_every_kind_of_row(session_of, base, tmp_path, width):
    (tmp_path / "base.json").write_text(json.dumps(base))
    lock = FILES["membudget.lock.yaml"].replace("TORCH", torch_of(os.environ))
    asked = (*ASKED, f"--membudget-compare={tmp_path / 'base.json'}")
    run = session_of({**FILES, "membudget.lock.yaml": lock}, *asked, env={**ALONE, "COLUMNS": str(width)})
    unfolded = " ".join(run.out.split())

    assert [text for text in WHOLE if text not in unfolded] == []
    assert wider(ours(run.out), width) == []


@pytest.mark.parametrize("width", [80, 120])
def test_the_commands(base, head, tmp_path, monkeypatch, capsys, width):
    monkeypatch.setenv("COLUMNS", str(width))
    for name, report in (("base.json", base), ("head.json", head)):
        (tmp_path / name).write_text(json.dumps(report))
    tried = {
        value: Tried(value, outcome, value * GIB, value * GIB, f"out of memory in {LONG}:14: {REASON}")
        for value, outcome in {1: FITS, 20: FITS, 21: TOO_LARGE, 22: FAILS}.items()
    }

    main(["report", str(tmp_path / "head.json")])
    main(["compare", str(tmp_path / "base.json"), str(tmp_path / "head.json")])
    main(["report", str(tmp_path / "no" / "such" / "report.json")])
    print_lines(result_lines("per_device_train_batch_size", "RTX-4090", tried, 64, width))
    printed = capsys.readouterr()
    unfolded = " ".join(printed.out.split())

    assert printed.err.startswith("membudget:")
    assert wider(printed.out + printed.err, width) == []
    assert [line for line in printed.out.splitlines() if line.split()[:1] == ["20"] and line.endswith("#")]
    assert f"does not fit: out of memory in {LONG}:14: {REASON}" in unfolded
    assert "in 12 lines, the largest +0.50 GiB at transformers/models/llama/modeling_llama.py:164" in unfolded


def test_a_command_line_that_cannot_be_used(session_of):
    asked = (*ASKED, "--membudget-compare=python:an-environment-that-is-not-there/bin/python")
    run = session_of(FILES, *asked, env={**ALONE, "COLUMNS": "80"})

    assert "write the path of another environment's interpreter" in " ".join(run.err.split())
    assert wider(run.err, 80) == []
