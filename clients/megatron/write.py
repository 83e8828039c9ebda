"""Megatron-LM's functional tests as budgets of its own ``pretrain_gpt.py``, from its own configuration files.

``python clients/megatron/write.py CHECKOUT FILE.membudget.yaml gpt/gpt3_mcore_tp1_pp2 ...``
"""

import os
import shlex
import sys
from pathlib import Path

import yaml

CASES = Path("tests/functional_tests/test_cases")
#: What replaces the data, and makes it short: the second step has the optimizer's states.
SHORT = [
    "--train-iters", "2", "--eval-iters", "0", "--mock-data",
    "--tokenizer-type", "NullTokenizer", "--vocab-size", "50256",
]  # fmt: skip
#: Of checkpoints, which are not written: a library of theirs.
UNSAVED = ("--async-save", "--use-persistent-ckpt-worker")
#: Without Apex and Transformer Engine: modules that allocate what its softmax does, and torch's layer norm.
WITHOUT_APEX = ["--no-persist-layer-norm"]
MODULES = Path(__file__).parent


def entry(checkout, name):
    """The budget of one of their tests: the arguments as they are, but for paths."""
    config = yaml.safe_load((checkout / CASES / name / "model_config.yaml").read_text(encoding="utf-8"))
    words = ["pretrain_gpt.py"]
    for option, value in config["MODEL_ARGS"].items():
        if value is not False and "${" not in str(value) and option not in UNSAVED:
            words += [option] if value is True else [option, str(value)]
    environment = {key: str(value) for key, value in config["ENV_VARS"].items() if key != "SKIP_PYTEST"}
    if config["MODEL_ARGS"].get("--transformer-impl") == "local":  # else Transformer Engine has all
        words += WITHOUT_APEX
        stubbed = [MODULES / "without_apex"]
        if config["MODEL_ARGS"].get("--sequence-parallel"):  # Megatron-LM refuses torch's for it
            stubbed.append(MODULES / "with_layer_norm")
        environment = {"PYTHONPATH": os.pathsep.join(map(str, stubbed)), **environment}
    script = shlex.join([*words, *SHORT])
    return {"name": name.rpartition("/")[2], "script": script, "environment": environment}


def write(checkout, file, names):
    """Write a budget for each of ``names``."""
    defaults = {"gpu": "A100-80GB", "gib": 72, "gpus": 8, "cwd": str(checkout)}
    budgets = {"defaults": defaults, "budgets": [entry(checkout, name) for name in names]}
    file.write_text(yaml.safe_dump(budgets, sort_keys=False, width=100), encoding="utf-8")


if __name__ == "__main__":
    checkout, file, *names = sys.argv[1:]
    write(Path(checkout).absolute(), Path(file), names)
