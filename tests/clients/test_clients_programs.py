"""Training programs as their authors wrote them, each by its ``*.membudget.yaml`` of ``clients/programs``.

``PROGRAMS`` is a folder with the checkouts of those that pip does not install (``tox -e clients-programs``).
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

#: Whose convolutions are by cuBLASLt, which are not all modelled; whose completions end with a token.
NOT_STRICT = ("diffusers", "ultralytics", "trl-grpo")
#: Embedding, head and two layers: 256 of 4 and 2 heads of 64, 688 in between.
LLAMA = 2 * 4096 * 256 + 2 * (2 * 256**2 + 2 * 256 * 128 + 3 * 256 * 688 + 512) + 256


def block(width, matrices=12, vectors=13):
    """The parameters of a transformer's block."""
    return matrices * width**2 + vectors * width


#: Two numbers for each parameter that is trained, by hand, and where a fused optimizer's steps are on the
#: card four bytes a tensor.
STATES = {
    # two embeddings of which one is tied, the position's, 12 layers of 12 products and two norms, a norm
    "nanoGPT": 2 * 4 * (50304 * 768 + 256 * 768 + 12 * (12 * 768**2 + 2 * 768) + 768) + 4 * 75,
    # 2**15 tokens and a width of 256: the head and 34 scalars in fp32, the embedding and those of two layers
    # in bf16; one number of Muon for each of 12 squares a layer and of 48 gates, and one a row or a column
    "nanochat": (
        2 * (4 * (2**23 + 34) + 2 * 3 * 2**23)
        + 4 * (4 * 12 * 2**16 + 48)
        + 4 * (16 * 256 + 8 * 1024 + 2 * 12)
    ),
    # patches of 8 x 8 x 4, times of 256, 1,001 classes, 12 blocks, and 8 x 8 x 8 of the last layer
    "DiT": 2 * 4 * (384 * (256 + 256 + 1001 + 512 + 5) + 512 + 3 * 384**2 + 12 * block(384, 18, 15)),
    # ViT-B/32: patches, places, 12 blocks, norms; texts: tokens, places, 12 blocks, a norm; two projections
    "open_clip": 2
    * 4
    * (
        (32 * 32 * 3 + 1 + 50 + 4 + 512) * 768
        + 12 * block(768)
        + (49408 + 77 + 2 + 512) * 512
        + 12 * block(512)
        + 1
    ),
    # 2,048 tokens and a width of 256, six layers of four squares, 768 in between, and two norms
    "torchtitan": 2 * 4 * (2 * 2**19 + 6 * (4 * 2**16 + 3 * 256 * 768 + 2 * 256) + 256) + 4 * 57,
    # the shape of google/ddpm-celebahq-256
    "diffusers": 2 * 4 * 113_673_219,
    # rank 8 of the query's and the value's product in six layers, bf16
    "litgpt": 2 * 2 * 6 * 2 * 8 * (128 + 128),
    "trl-sft": 2 * 2 * LLAMA + 4 * 21,
    "trl-grpo": 2 * 2 * LLAMA + 4 * 21,
    "torchtune": 2 * 2 * (128256 * 128 + 2 * (2 * 128**2 + 2 * 128 * 64 + 3 * 128 * 256 + 256) + 128),
    # YOLO11n as published, of which the 16 of its last convolution are not trained
    "ultralytics": 2 * 4 * (2_624_080 - 16) + 4 * (87 + 2 * 81 + 6),
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
