"""litgpt's own pretraining, ``pretrain.setup``: Pythia 160M, two steps of two micro-batches."""

import sys

import pytest
import torch
from litgpt.args import EvalArgs, TrainArgs
from litgpt.data import DataModule
from litgpt.pretrain import setup
from torch.utils.data import DataLoader

LENGTH = 2048


class RandomTokens(DataModule):
    """Rows of tokens that mean nothing, in the place of a data set."""

    def connect(self, tokenizer=None, batch_size=1, max_seq_length=None):
        self.batch_size, self.length = batch_size, max_seq_length + 1

    def train_dataloader(self):
        return DataLoader(torch.randint(0, 50254, (64, self.length)), batch_size=self.batch_size)

    val_dataloader = train_dataloader


@pytest.mark.mem_budget(gib=9, gpu="A100-80GB")
def test_pythia_160m(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["litgpt", "pythia-160m"])  # it keeps its command line with a checkpoint
    setup(
        "pythia-160m",
        precision="bf16-true",
        out_dir=tmp_path,
        data=RandomTokens(),
        devices=1,
        train=TrainArgs(
            global_batch_size=8,
            micro_batch_size=4,
            max_tokens=4 * 4 * LENGTH,
            max_norm=1.0,
            lr_warmup_steps=1,
            save_interval=None,
        ),
        eval=EvalArgs(interval=1000, max_iters=1),
        logger_name="csv",
    )
