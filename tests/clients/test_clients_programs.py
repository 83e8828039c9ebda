"""Training programs as their authors wrote them, each by its ``*.membudget.yaml`` of ``clients/programs``.

``PROGRAMS`` is a folder with the checkouts of nanoGPT and PyTorch Geometric (``tox -e clients-programs``).
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FILES = Path(__file__).parents[2] / "clients/programs"
PROGRAMS = Path(os.environ.get("PROGRAMS", "programs")).absolute()

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PROGRAMS.is_dir(), reason="PROGRAMS is no folder with programs' checkouts"),
]

#: Whose reads are not all checked.
NOT_STRICT = ("torchtune",)
#: Embedding, head and two layers: 256 of 4 and 2 heads of 64, 688 in between.
LLAMA = 2 * 4096 * 256 + 2 * (2 * 256**2 + 2 * 256 * 128 + 3 * 256 * 688 + 512) + 256
#: Two numbers for each parameter that is trained, by hand, and where a fused optimizer's steps are on the
#: card four bytes a tensor.
STATES = {
    # two embeddings of which one is tied, the position's, 12 layers of 12 products and two norms, a norm
    "nanoGPT": 2 * 4 * (50304 * 768 + 256 * 768 + 12 * (12 * 768**2 + 2 * 768) + 768) + 4 * 75,
    # rank 8 of the query's and the value's product in six layers, bf16
    "litgpt": 2 * 2 * 6 * 2 * 8 * (128 + 128),
    "trl-sft": 2 * 2 * LLAMA + 4 * 21,
    "trl-grpo": 2 * 2 * LLAMA + 4 * 21,
    "torchtune": 2 * 2 * (128256 * 128 + 2 * (2 * 128**2 + 2 * 128 * 64 + 3 * 128 * 256 + 256) + 128),
    "pyg": 2 * 4 * (1433 * 16 + 16 + 16 * 7 + 7),
    # Whisper tiny has 37,760,640, of which the encoder's places are not trained
    "whisper": 2 * 4 * (37_760_640 - 1500 * 384) + 4 * 166,
}


@pytest.fixture(scope="module")
def folder():
    subprocess.run([sys.executable, FILES / "write.py", PROGRAMS], check=True)
    for file in (*FILES.glob("*.yaml"), FILES / "whisper.py"):
        shutil.copy(file, PROGRAMS)
    return PROGRAMS


def row_of(name, folder, report):
    options = ["--membudget", f"--membudget-report={report}", "--membudget-measure=off"]
    options += [] if name in NOT_STRICT else ["--membudget-strict"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options, f"{name}.membudget.yaml"],
        cwd=folder,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    [row] = json.loads((report / "report.json").read_text())["tests"]
    return row


@pytest.mark.parametrize("name", STATES)
def test_the_optimizer_has_two_numbers_a_parameter(name, folder, tmp_path):
    row = row_of(name, folder, tmp_path)

    assert row["verdict"] == "within"
    assert row["estimates"][0]["components"]["optimizer_states"] == STATES[name]
