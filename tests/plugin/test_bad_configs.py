"""Configurations of models that are missing or broken: each budget fails with its file, line and remedy."""

import json

import pytest

GOOD = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 1000,
}
#: What is in the file, and what the failure says.
CONFIGS = {
    "missing": (
        None,
        ["missing.json cannot be read (No such file or directory); write its path"],
    ),
    "a_folder": ("folder", ["a_folder.json/config.json cannot be read (No such file or directory)"]),
    "empty": (b"", ["empty.json is no JSON", "write the path of a config.json"]),
    "cut": (json.dumps(GOOD)[:40].encode(), ["cut.json is no JSON", "line 1"]),
    "binary": (b"\xff\xfe\x00", ["binary.json is no JSON"]),
    "a_list": (
        b"[1, 2]",
        ["a_list.json: there is no model_type in it; write a Hugging Face config.json"],
    ),
    "of_no_type": (json.dumps({**GOOD, "model_type": None}).encode(), ["there is no model_type in it"]),
    "of_an_unknown_type": (
        json.dumps({**GOOD, "model_type": "llamma"}).encode(),
        ["model_type 'llamma' is no decoder that formulas know; did you mean llama?"],
    ),
    "with_a_text": (
        json.dumps({**GOOD, "hidden_size": "64"}).encode(),
        ["hidden is '64'; write a whole number"],
    ),
    "negative": (
        json.dumps({**GOOD, "hidden_size": -64}).encode(),
        ["hidden is -64; write a whole number"],
    ),
    "odd_heads": (
        json.dumps({**GOOD, "num_attention_heads": 3}).encode(),
        ["64 is no multiple of 3 heads; write head_dim"],
    ),
}


@pytest.fixture(scope="module")
def run(tmp_path_factory, in_folder):
    folder = tmp_path_factory.mktemp("configs")
    (folder / "pyproject.toml").write_text("")
    lines = ["budgets:"]
    for name, (content, _) in {**CONFIGS, "good": (json.dumps(GOOD).encode(), [])}.items():
        lines.append(f"  - {{name: {name}, gib: 40, implementation: formulas, model: {name}.json}}")
        path = folder / f"{name}.json"
        if content == "folder":
            path.mkdir()
        elif content is not None:
            path.write_bytes(content)
    (folder / "some.membudget.yaml").write_text("\n".join(lines) + "\n")
    return in_folder(folder, "--membudget", "--membudget-report=membudget")


@pytest.mark.parametrize("name", CONFIGS)
def test_a_config_that_cannot_be_used_fails_its_own_budget(run, name):
    line = 2 + list(CONFIGS).index(name)

    assert run.outcomes[name] == "failed", run.out
    text = run.text(name)
    assert text.startswith(f"some.membudget.yaml:{line}: "), text
    assert all(part in text for part in CONFIGS[name][1]), text
    assert "Traceback" not in text
    assert run.rows[name]["verdict"] == "error"


def test_the_others_are_estimated(run):
    assert run.outcomes["good"] == "passed"
    assert run.status == 1
    assert "INTERNALERROR" not in run.out + run.err
