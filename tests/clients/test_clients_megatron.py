"""Megatron-LM's own pretrain_gpt.py beside the peaks that its functional tests have kept, on real cards.

``MEGATRON_LM`` is a checkout of it. The peaks are those of the last rank (``mem-max-allocated-bytes``, which
megatron/training/training.py logs where the process of the tensorboard is), after their last step.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHECKOUT = Path(os.environ.get("MEGATRON_LM", "Megatron-LM"))
CASES = CHECKOUT / "tests/functional_tests/test_cases"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CASES.is_dir(), reason="MEGATRON_LM is no checkout of Megatron-LM"),
]

#: Their cases, and how far a peak may be from the one kept, as their own cards are from each other.
APART = {
    "gpt/gpt3_mcore_tp2_pp2_uninstall_te": 512,
    "gpt/gpt3_mcore_tp4_pp1": 2**20,
    "gpt/gpt3_mcore_tp1_pp2": 3 * 2**20,
    "gpt/gpt3_mcore_tp1_pp4": 2**17,
    "gpt/gpt3_mcore_tp1_pp1_dist_optimizer_overlap_grad_reduce_param_gather": 1024,
}


def peak_of(name, folder):
    """The peak of its last rank in bytes, as ``pytest --membudget`` estimates it."""
    file = folder / "megatron.membudget.yaml"
    writer = [sys.executable, "clients/megatron/write.py", str(CHECKOUT.absolute()), str(file), name]
    subprocess.run(writer, cwd=ROOT, check=True)
    options = ["--membudget", f"--membudget-report={folder}", "--membudget-measure=off"]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options, str(file)]
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])  # make asks its python3
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    [row] = json.loads((folder / "report.json").read_text())["tests"]
    [last] = [one for one in row["estimates"] if one["rank"] == 7]
    return last["peak"]["allocated"]


@pytest.mark.parametrize("name", APART)
def test_the_last_ranks_peak_is_the_one_that_was_kept(name, tmp_path):
    kept = json.loads((CASES / name / "golden_values_dev_dgx_a100.json").read_text())
    *_, peak_bytes = kept["mem-max-allocated-bytes"]["values"].values()

    assert abs(peak_of(name, tmp_path) - int(peak_bytes)) <= APART[name]
