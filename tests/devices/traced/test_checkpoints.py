"""Checkpoints: saved without data, loaded by their shapes, real ones too."""

import io
import os
import pickle

import pytest
import torch
from torch import nn

MIB = 2**20


def saved(map_location, weights_only):
    model = nn.Linear(512, 512, device="cuda")
    model.register_buffer("steps", torch.tensor([1, 2], device="cuda"))
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "step": 3}, file)
    size = len(file.getvalue())
    file.seek(0)
    places = {"function": lambda storage, location: storage, "dict": {"cuda:0": "cpu"}}
    loaded = torch.load(file, map_location=places.get(map_location, map_location), weights_only=weights_only)
    model.load_state_dict(loaded["model"])
    weight = loaded["model"]["weight"]
    return [
        size < 100_000, str(weight.device), list(weight.shape), weight.requires_grad,
        loaded["model"]["steps"].tolist(), loaded["step"],
    ]  # fmt: skip


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize(
    ("map_location", "device"),
    [(None, "cuda:0"), ("cpu", "cpu"), ("cuda", "cuda:0"), ("function", "cpu"), ("dict", "cpu")],
)
def test_a_checkpoint_is_saved_and_loaded_without_its_data(trace, map_location, device, weights_only):
    traced = trace(saved, map_location, weights_only)

    assert traced.value == [True, device, [512, 512], False, [1, 2], 3]
    # the model, and what is loaded where it lay
    assert traced.allocated == (1 + (device != "cpu")) * (MIB + 2048 + 512)


def saved_module():
    tied = nn.Sequential(nn.Linear(8, 8, bias=False), nn.Linear(8, 8, bias=False)).cuda()
    tied[1].weight = tied[0].weight
    file = io.BytesIO()
    torch.save(tied, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    return [
        loaded[0].weight is loaded[1].weight, isinstance(loaded[0].weight, nn.Parameter),
        loaded[0].weight.requires_grad, pickle.loads(pickle.dumps(torch.arange(3))).tolist(),
    ]  # fmt: skip


def test_a_saved_module_stays_tied(trace):
    assert trace(saved_module).value == [True, True, True, [0, 1, 2]]


def loaded_from(path):
    loaded = torch.load(path, map_location="cuda", weights_only=True)
    return [list(loaded["weight"].shape), str(loaded["weight"].device), torch.cuda.memory_allocated()]


def test_a_real_checkpoint_is_loaded_by_its_shapes(trace, tmp_path):
    torch.save({"weight": torch.randn(512, 512)}, tmp_path / "real.pt")

    assert trace(loaded_from, str(tmp_path / "real.pt")).value == [[512, 512], "cuda:0", MIB]


def saved_by_safetensors(path):
    import safetensors.torch

    model = nn.Linear(1024, 1024, bias=False, device="cuda")
    safetensors.torch.save_file(model.state_dict(), path, metadata={"format": "pt"})
    loaded = safetensors.torch.load_file(path, device="cuda")
    again = safetensors.torch.load(safetensors.torch.save({"ids": torch.arange(3)}))
    return (
        os.path.getsize(path) < 100_000,
        list(loaded["weight"].shape),
        str(loaded["weight"].device),
        again["ids"].tolist(),
    )


def test_safetensors_saves_and_loads_without_data(trace, tmp_path):
    pytest.importorskip("safetensors")

    traced = trace(saved_by_safetensors, str(tmp_path / "model.safetensors"))

    assert traced.value == [True, [1024, 1024], "cuda:0", [0, 1, 2]]


def opened_by_safetensors(path):
    """As transformers and accelerate read what ``save_pretrained`` wrote."""
    import safetensors.torch

    model = nn.Linear(512, 512, dtype=torch.bfloat16, device="cuda")
    model.register_buffer("steps", torch.tensor([1, 2], device="cuda"))
    half = {"half": model.weight[:256]}  # half of its storage
    safetensors.torch.save_file({**model.state_dict(), **half}, path, metadata={"format": "pt"})
    before = torch.cuda.memory_allocated()
    with safetensors.safe_open(path, framework="pt", device=0) as file:
        names, metadata, part = file.keys(), file.metadata(), file.get_slice("weight")
        tensors = [part[:128], part[...], file.get_tensor("half"), file.get_tensor("steps")]
    return [
        names, metadata, part.get_shape(), part.get_dtype(), [list(one.shape) for one in tensors],
        tensors[3].tolist(), {str(one.device) for one in tensors} == {"cuda:0"},
        any(one.requires_grad for one in tensors), torch.cuda.memory_allocated() - before,
    ]  # fmt: skip


def test_safetensors_opens_what_it_saved_without_data(trace, tmp_path):
    pytest.importorskip("safetensors")
    weight = 512 * 512 * 2

    assert trace(opened_by_safetensors, str(tmp_path / "model.safetensors")).value == [
        ["bias", "half", "steps", "weight"], {"format": "pt"}, [512, 512], "BF16",
        [[128, 512], [512, 512], [256, 512], [2]], [1, 2], True, False,
        weight // 4 + weight + weight // 2 + 512,
    ]  # fmt: skip


def loaded_by_safetensors(path):
    import safetensors.torch

    host = safetensors.torch.load_file(path)
    before = torch.cuda.memory_allocated()
    device = safetensors.torch.load_file(path, device="cuda")
    with safetensors.safe_open(path, "pt", device="cuda:0") as file:
        part = file.get_slice("weight")[:256]
    return [
        list(host["weight"].shape), str(host["weight"].device), before, list(device["weight"].shape),
        str(device["weight"].device), list(part.shape), str(part.device), torch.cuda.memory_allocated(),
    ]  # fmt: skip


def test_a_real_file_of_safetensors_is_loaded_by_its_shapes(trace, tmp_path):
    library = pytest.importorskip("safetensors.torch")
    library.save_file({"weight": torch.randn(512, 512)}, tmp_path / "real.safetensors")

    assert trace(loaded_by_safetensors, str(tmp_path / "real.safetensors")).value == [
        [512, 512], "cpu", 0, [512, 512], "cuda:0", [256, 512], "cuda:0", MIB + MIB // 2,
    ]  # fmt: skip


def pretrained_again(path):
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_embd=64, n_layer=2, n_head=4, vocab_size=100, n_positions=32)
    GPT2LMHeadModel(config).save_pretrained(path)
    model = GPT2LMHeadModel.from_pretrained(path).cuda()
    return str(model.device), str(model.dtype), sum(one.numel() for one in model.parameters())


def test_a_model_saved_on_the_device_is_loaded_again(trace, tmp_path):
    pytest.importorskip("transformers")
    layer = 4 * 64 + 64 * 192 + 192 + 64 * 64 + 64 + 64 * 256 + 256 + 256 * 64 + 64
    count = 2 * layer + 2 * 64 + (100 + 32) * 64

    traced = trace(pretrained_again, str(tmp_path))

    assert traced.value == ["cuda:0", "torch.float32", count]
    assert traced.parameters == 4 * count


def pretrained(path):
    from transformers import GPT2LMHeadModel

    model = GPT2LMHeadModel.from_pretrained(path, dtype=torch.bfloat16).to("cuda")
    model(torch.zeros(1, 4, dtype=torch.long, device="cuda"))
    return str(model.device), str(model.dtype)


def test_a_pretrained_model_is_loaded_onto_the_device(trace, tmp_path):
    """transformers loads in threads. 2 layers of width 64, 100 tokens, 32 positions, in bf16."""
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(n_embd=64, n_layer=2, n_head=4, vocab_size=100, n_positions=32)
    model = transformers.GPT2LMHeadModel(config)
    model.save_pretrained(tmp_path)

    traced = trace(pretrained, str(tmp_path))

    layer = 4 * 64 + 64 * 192 + 192 + 64 * 64 + 64 + 64 * 256 + 256 + 256 * 64 + 64
    assert traced.value == ["cuda:0", "torch.bfloat16"]
    assert traced.parameters == 2 * (2 * layer + 2 * 64 + (100 + 32) * 64)
