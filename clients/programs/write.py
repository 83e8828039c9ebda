"""Writes at random what the programs read: ``python write.py FOLDER``, where their checkouts are."""

import base64
import json
import pickle
import random
import sys
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import scipy.sparse
import tiktoken
import torch
from diffusers import AutoencoderKL
from litgpt import GPT, Config
from litgpt.utils import save_config
from PIL import Image
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch_geometric.datasets import Planetoid
from torchtune.models.llama3_2 import llama3_2
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

END = "<|endoftext|>"
DRAWN = np.random.default_rng(0)
random.seed(0)  # the texts' lengths in tokens are in the figures
WORDS = ["".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=5)) for _ in range(30_000)]


def text(words):
    return " ".join(random.choices(WORDS, k=words))


def tokenizer(size=4096):
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel()
    made.decoder = decoders.ByteLevel()
    letters = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=[END, "<|pad|>"], initial_alphabet=letters)
    made.train_from_iterator([text(2000) for _ in range(20)], trainer)
    return made


def tokens_of_nanogpt(folder):
    for name in ("train", "val"):
        DRAWN.integers(0, 50257, 200_000, dtype=np.uint16).tofile(folder / f"{name}.bin")


def tokenizer_and_texts_of_nanochat(folder):
    """Of as many tokens as nanochat's own: all bytes, pairs of them, and its nine."""
    pairs = [bytes([first, second]) for first in range(256) for second in range(256)]
    ranks = {word: rank for rank, word in enumerate([*(bytes([i]) for i in range(256)), *pairs][: 2**15 - 9])}
    marks = (f"{who}_{at}" for who in ("user", "assistant", "python", "output") for at in ("start", "end"))
    specials = {f"<|{mark}|>": rank for rank, mark in enumerate(["bos", *marks], len(ranks))}
    made = tiktoken.Encoding("random", pat_str=r"\S+|\s+", mergeable_ranks=ranks, special_tokens=specials)
    (folder / "tokenizer").mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer/tokenizer.pkl").write_bytes(pickle.dumps(made))
    torch.save(torch.ones(2**15, dtype=torch.int32), folder / "tokenizer/token_bytes.pt")
    (folder / "base_data_climbmix").mkdir(exist_ok=True)
    for shard in range(2):
        table = pyarrow.table({"text": [text(300) for _ in range(1000)]})
        pyarrow.parquet.write_table(table, folder / f"base_data_climbmix/shard_{shard:05d}.parquet")


def images(folder, suffix, size):
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(8):
        pixels = DRAWN.integers(0, 255, (size, size, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{i}.{suffix}")


def autoencoder_of_dit(folder):
    """Stable Diffusion's, as stabilityai/sd-vae-ft-ema has it."""
    down, up = ["DownEncoderBlock2D"] * 4, ["UpDecoderBlock2D"] * 4
    channels = [128, 256, 512, 512]
    AutoencoderKL(
        down_block_types=down, up_block_types=up, block_out_channels=channels, layers_per_block=2
    ).save_pretrained(folder)  # fmt: skip


def llama_and_texts_of_trl(folder):
    of_llama = PreTrainedTokenizerFast(tokenizer_object=tokenizer(), eos_token=END, pad_token="<|pad|>")
    of_llama.chat_template = (
        "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant: "
    )
    of_llama.save_pretrained(folder / "llama")
    config = LlamaConfig(
        vocab_size=4096, hidden_size=256, intermediate_size=688, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, eos_token_id=0, pad_token_id=1, bos_token_id=0,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder / "llama")
    (folder / "trl-sft").mkdir(exist_ok=True)
    lines = [json.dumps({"text": text(200)}) for _ in range(32)]
    (folder / "trl-sft/train.jsonl").write_text("\n".join(lines))
    (folder / "trl-grpo").mkdir(exist_ok=True)
    lines = [json.dumps({"prompt": [{"role": "user", "content": text(20)}]}) for _ in range(32)]
    (folder / "trl-grpo/train.jsonl").write_text("\n".join(lines))


def tokenizer_and_texts_of_torchtitan(folder):
    (folder / "tokenizer").mkdir(parents=True, exist_ok=True)
    tokenizer(2000).save(str(folder / "tokenizer/tokenizer.json"))
    ends = {"bos_token": END, "eos_token": END}
    (folder / "tokenizer/tokenizer_config.json").write_text(json.dumps(ends))
    (folder / "c4_test").mkdir(exist_ok=True)
    lines = [json.dumps({"text": text(500)}) for _ in range(200)]
    (folder / "c4_test/data.json").write_text("\n".join(lines))


def checkpoint_of_litgpt(folder):
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer().save(str(folder / "tokenizer.json"))
    named = {"eos_token": END, "tokenizer_class": "GPTNeoXTokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(named))
    config = Config.from_name("pythia-14m")
    torch.save(GPT(config).state_dict(), folder / "lit_model.pth")
    save_config(config, folder)


def checkpoint_of_torchtune(folder):
    folder.mkdir(exist_ok=True)
    lines = [f"{base64.b64encode(bytes([i])).decode()} {i}\n" for i in range(256)]
    (folder / "tokenizer.model").write_text("".join(lines))
    model = llama3_2(
        vocab_size=128256, num_layers=2, num_heads=4, num_kv_heads=2, embed_dim=128, max_seq_len=1024,
        intermediate_dim=256,
    )  # fmt: skip
    torch.save(model.state_dict(), folder / "model.pt")


def images_and_boxes_of_ultralytics(folder):
    for split in ("train", "val"):
        images(folder / "images" / split, "jpg", 320)
        (folder / "labels" / split).mkdir(parents=True, exist_ok=True)
        for i in range(8):
            (folder / f"labels/{split}/{i}.txt").write_text(f"{i} 0.5 0.5 0.25 0.25\n")
    named = {"train": "images/train", "val": "images/val", "names": WORDS[:80]}
    (folder / "data.yaml").write_text(json.dumps(named))


def cora_of_pyg(folder):
    """Raw files as ``Planetoid`` reads them: 2,708 nodes of 1,433 numbers, 7 classes."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {"graph": {i: [int(j) for j in DRAWN.integers(0, 2708, 2)] for i in range(2708)}}
    for what, nodes in {"": 140, "t": 1000, "all": 1708}.items():
        files[f"{what}x"] = scipy.sparse.random(nodes, 1433, 0.0127, format="csr", dtype=np.float32)
        files[f"{what}y"] = np.eye(7, dtype=np.int32)[DRAWN.integers(0, 7, nodes)]
    for name, value in files.items():
        (folder / f"ind.cora.{name}").write_bytes(pickle.dumps(value))
    (folder / "ind.cora.test.index").write_text("\n".join(map(str, range(1708, 2708))))
    Planetoid(str(folder.parents[1]), "Cora")  # processed: a first run does what no other does


def main():
    folder = Path(sys.argv[1])
    data = folder / "data"
    data.mkdir(exist_ok=True)
    tokens_of_nanogpt(folder / "nanoGPT/data/openwebtext")
    tokenizer_and_texts_of_nanochat(data / "nanochat")
    for kind in "ab":
        images(data / "images" / kind, "png", 256)
    autoencoder_of_dit(folder / "DiT/stabilityai/sd-vae-ft-ema")
    tokenizer_and_texts_of_torchtitan(data / "torchtitan/tests/assets")
    llama_and_texts_of_trl(data)
    checkpoint_of_litgpt(data / "litgpt/pythia-14m")
    checkpoint_of_torchtune(data / "torchtune")
    images_and_boxes_of_ultralytics(data / "ultralytics")
    cora_of_pyg(folder / "pytorch_geometric/data/Planetoid/Cora/raw")
    lines = [{"instruction": text(60), "input": "", "output": text(60)} for _ in range(32)]
    (data / "instructions.json").write_text(json.dumps(lines))


main()
