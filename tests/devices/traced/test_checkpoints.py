"""Checkpoints: a hole in the file for what nobody has computed, loaded by their shapes; real ones too."""

import ctypes
import gzip
import io
import os
import pickle

import pytest
import torch
from torch import nn

MIB = 2**20


def stored_bytes(path):
    """What a file, or the files of a folder, take on disk."""
    paths = [os.path.join(path, name) for name in os.listdir(path)] if os.path.isdir(path) else [path]
    return sum(os.stat(one).st_blocks * 512 for one in paths)


def saved(path, map_location, weights_only, is_new):
    model = nn.Linear(512, 512, device="cuda")
    model.register_buffer("steps", torch.tensor([1, 2], device="cuda"))
    torch.save({"model": model.state_dict(), "step": 3}, path, _use_new_zipfile_serialization=is_new)
    places = {"function": lambda storage, location: storage, "dict": {"cuda:0": "cpu"}}
    loaded = torch.load(path, map_location=places.get(map_location, map_location), weights_only=weights_only)
    model.load_state_dict(loaded["model"])
    weight = loaded["model"]["weight"]
    return [
        stored_bytes(path) < 100_000, os.path.getsize(path) > MIB, str(weight.device), list(weight.shape),
        weight.requires_grad, loaded["model"]["steps"].tolist(), loaded["step"],
    ]  # fmt: skip


@pytest.mark.parametrize("is_new", [True, False])
@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize(
    ("map_location", "device"),
    [(None, "cuda:0"), ("cpu", "cpu"), ("cuda", "cuda:0"), ("function", "cpu"), ("dict", "cpu")],
)
def test_a_checkpoint_is_saved_and_loaded_without_its_data(
    trace, tmp_path, map_location, device, weights_only, is_new
):
    traced = trace(saved, str(tmp_path / "saved.pt"), map_location, weights_only, is_new)

    assert traced.value == [True, True, device, [512, 512], False, [1, 2], 3]
    # the model, and what is loaded where it lay
    assert traced.allocated == (1 + (device != "cpu")) * (MIB + 2048 + 512)
    assert traced.report.caveats == ()


def saved_for_others(folder):
    model = nn.Linear(512, 512, device="cuda")
    model.register_buffer("steps", torch.tensor([1, 2], device="cuda"))
    torch.save(model.state_dict(), os.path.join(folder, "saved.pt"))
    with open(os.path.join(folder, "saved.pickle"), "wb") as file:
        pickle.dump(model.cpu().state_dict(), file)


def test_a_torch_with_a_real_device_reads_a_checkpoint(trace, tmp_path):
    """As processes do that a test starts."""
    trace(saved_for_others, str(tmp_path))

    with open(tmp_path / "saved.pickle", "rb") as file:
        loaded = [torch.load(tmp_path / "saved.pt", map_location="cpu", mmap=mmap) for mmap in (False, True)]
        loaded.append(pickle.load(file))
    assert [one["weight"].shape for one in loaded] == [(512, 512)] * 3
    assert [one["steps"].tolist() for one in loaded] == [[1, 2]] * 3


def saved_mapped(path):
    torch.save({"weight": torch.empty(512, 512, device="cuda"), "ids": torch.arange(9, device="cuda")}, path)
    loaded = torch.load(path, mmap=True, map_location="cpu")
    return list(loaded["weight"].shape), loaded["ids"].tolist(), stored_bytes(path) < 100_000


def test_a_checkpoint_is_mapped(trace, tmp_path):
    assert trace(saved_mapped, str(tmp_path / "saved.pt")).value == [[512, 512], [*range(9)], True]


def saved_to_streams(folder):
    weight = torch.empty(512, 512, device="cuda")
    paths = [os.path.join(folder, name) for name in ("plain", "appended", "packed")]
    buffer = io.BytesIO()
    torch.save(weight, buffer)
    buffer.seek(0)
    shapes = [list(torch.load(buffer).shape)]
    for path, opened in zip(paths, (open, open, gzip.open), strict=True):
        with opened(path, "ab" if path.endswith("appended") else "wb") as stream:
            torch.save(weight, stream)
        with (gzip.open if opened is gzip.open else open)(path, "rb") as stream:
            shapes.append(list(torch.load(stream).shape))
    return shapes, len(buffer.getvalue()) > MIB, [stored_bytes(path) < 100_000 for path in paths]


def test_a_checkpoint_is_written_to_a_stream(trace, tmp_path):
    """A file that is appended to has no holes."""
    value = trace(saved_to_streams, str(tmp_path)).value

    assert value == [[[512, 512]] * 4, True, [True, False, True]]


def continued(path, is_new):
    """As scripts save each so many steps, and are started again."""
    model = nn.Linear(512, 512, device="cuda")

    def stepped(state=None):
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)  # counts its steps on the card
        if state is not None:
            optimizer.load_state_dict(state)
        for _ in range(2):
            model(torch.randn(8, 512, device="cuda")).sum().backward()
            optimizer.step()
        torch.save(optimizer.state_dict(), path, _use_new_zipfile_serialization=is_new)
        return optimizer.state[model.weight]["step"].item()

    counts = [stepped(), stepped(torch.load(path, map_location="cuda"))]
    return [*counts, torch.load(path, map_location="cpu")["state"][0]["step"].item()]


@pytest.mark.parametrize("is_new", [True, False])
def test_steps_are_counted_on_after_a_checkpoint(trace, tmp_path, is_new):
    traced = trace(continued, str(tmp_path / "saved.pt"), is_new)

    assert traced.value == [2, 4, 4]
    assert traced.report.caveats == ()


def read_again(path, is_new, device):
    loss = torch.randn(64, device="cuda").mean()
    torch.save(loss, path, _use_new_zipfile_serialization=is_new)
    return torch.load(path, map_location=device).item() > 0


@pytest.mark.parametrize("is_new", [True, False])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_what_nobody_knows_is_not_known_when_it_is_loaded(trace, tmp_path, device, is_new):
    traced = trace(read_again, str(tmp_path / "saved.pt"), is_new, device)

    (caveat,) = traced.report.caveats
    assert "reads a float32 value" in str(caveat.text) or "reads float32 values" in str(caveat.text)


def counted(path, way, count):
    """As code prunes what it has loaded."""
    weights = {"weight": torch.randn(count, device="cuda")}
    if way == "mapped":
        torch.save(weights, path)
        loaded = torch.load(path, mmap=True, map_location="cpu")
    else:
        import safetensors
        from safetensors.torch import load, load_file, save, save_file

        if way != "bytes":
            save_file(weights, path)
        if way == "bytes":
            loaded = load(save(weights))
        elif way in ("cpu", "cuda"):
            loaded = load_file(path, device=way)
        else:
            with safetensors.safe_open(path, framework="pt") as file:
                loaded = {
                    name: file.get_slice(name)[: count // 2] if way == "slice" else file.get_tensor(name)
                    for name in file.keys()  # noqa: SIM118 - no mapping
                }
    return int((loaded["weight"] > 0).sum()) > 0


@pytest.mark.parametrize("count", [100, MIB])
@pytest.mark.parametrize("way", ["mapped", "bytes", "cpu", "cuda", "opened", "slice"])
def test_what_is_read_of_a_file_of_unknown_values_is_listed(trace, tmp_path, way, count):
    if way != "mapped":
        pytest.importorskip("safetensors", "0.8")

    caveats = trace(counted, str(tmp_path / "saved"), way, count).report.caveats

    assert [caveat for caveat in caveats if "read" in str(caveat.text)], caveats


def masks(way, path):
    mask = (torch.randn(4, 50, device="cuda") > 0).cpu()
    if way == "pickle":
        loaded = pickle.loads(pickle.dumps(mask))
    else:
        torch.save(mask, path, _use_new_zipfile_serialization=way == "new")
        loaded = torch.load(path)
    return len(torch.arange(200).view(4, 50)[loaded])


@pytest.mark.parametrize("way", ["pickle", "new", "old"])
def test_a_mask_that_nobody_knows_selects_all_when_it_is_loaded(trace, tmp_path, way):
    traced = trace(masks, way, str(tmp_path / "saved.pt"))

    assert traced.value == 200


def real_values(path):
    ids, zeros = torch.arange(MIB), torch.zeros(MIB)
    torch.save({"ids": ids, "zeros": zeros}, path)
    loaded = torch.load(path)
    return torch.equal(loaded["ids"], ids), loaded["zeros"].sum().item(), stored_bytes(path) // MIB


def test_what_the_host_has_computed_is_saved(trace, tmp_path):
    """8 MiB of numbers; zeros that nobody has written are as good as a hole."""
    traced = trace(real_values, str(tmp_path / "saved.pt"))

    assert traced.value == [True, 0, 8]
    assert traced.report.caveats == ()


def distributed(path, stager):
    from torch.distributed import checkpoint
    from torch.distributed.checkpoint.staging import BlockingAsyncStager

    model = nn.Linear(512, 512, device="cuda")
    model.register_buffer("steps", torch.tensor([1, 2], device="cuda"))
    if stager is None:
        checkpoint.save(model.state_dict(), checkpoint_id=path)
    else:
        stagers = {"default": None, "blocking": BlockingAsyncStager()}
        checkpoint.async_save(model.state_dict(), checkpoint_id=path, async_stager=stagers[stager]).result()
    model.steps.zero_()
    state = model.state_dict()
    checkpoint.load(state, checkpoint_id=path)
    return stored_bytes(path) < 100_000, list(state["weight"].shape), state["steps"].tolist()


@pytest.mark.parametrize("stager", [None, "default", "blocking"])
def test_a_distributed_checkpoint_is_saved_and_loaded_without_its_data(trace, tmp_path, stager):
    traced = trace(distributed, str(tmp_path / "saved"), stager)

    assert traced.value == [True, [512, 512], [1, 2]]
    assert traced.report.caveats == ()


def pickled():
    weight = torch.empty(512, 512, device="cuda")
    data = pickle.dumps({"weight": weight, "ids": torch.arange(3, device="cuda")})
    again = pickle.loads(data)
    return len(data) > MIB, list(again["weight"].shape), str(again["weight"].device), again["ids"].tolist()


def test_a_pickle_is_as_long_as_on_a_card(trace):
    """``all_gather_object`` allocates that much."""
    traced = trace(pickled)

    assert traced.value == [True, [512, 512], "cuda:0", [0, 1, 2]]
    assert traced.report.caveats == ()


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
        stored_bytes(path) < 100_000,
        list(loaded["weight"].shape),
        str(loaded["weight"].device),
        again["ids"].tolist(),
    )


def test_safetensors_saves_and_loads_without_data(trace, tmp_path):
    pytest.importorskip("safetensors")

    traced = trace(saved_by_safetensors, str(tmp_path / "model.safetensors"))

    assert traced.value == [True, [1024, 1024], "cuda:0", [0, 1, 2]]
    assert traced.report.caveats == ()


def saved_without_values(path, metadata):
    import safetensors.torch

    tensors = {
        "known": torch.arange(3),
        "few": torch.randn(3, device="cuda"),
        "\N{HEAVY CHECK MARK}": torch.ones(2),
    }
    tensors["many"] = torch.randn(MIB, device="cuda")
    safetensors.torch.save_file(tensors, path, metadata)
    loaded = safetensors.torch.load_file(path)
    return {name: list(tensor.shape) for name, tensor in loaded.items()}, loaded["known"].tolist()


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}])
def test_the_library_reads_files_with_unknown_values(trace, tmp_path, metadata):
    package = pytest.importorskip("safetensors", "0.8")
    shapes = {"known": [3], "few": [3], "\N{HEAVY CHECK MARK}": [2], "many": [MIB]}

    traced = trace(saved_without_values, str(tmp_path / "saved"), metadata)

    assert traced.value == [shapes, [0, 1, 2]]
    assert traced.report.caveats == ()
    with package.safe_open(tmp_path / "saved", "pt") as file:
        assert file.metadata() == metadata
        assert {name: file.get_slice(name).get_shape() for name in file.keys()} == shapes  # noqa: SIM118
        assert file.get_tensor("known").tolist() == [0, 1, 2]
        assert file.get_tensor("\N{HEAVY CHECK MARK}").tolist() == [1, 1]


def written_twice(folder, metadata):
    """With holes, and by the library's own code."""
    import safetensors.torch

    tensors = {
        "ids": torch.arange(MIB), "zeros": torch.zeros(MIB), "half": torch.zeros(MIB, dtype=torch.half),
        "f\u00fcr": torch.arange(7), "flags": torch.tensor([True, False]), "none": torch.zeros(0, 4),
        "one": torch.tensor(0.5), "complex": torch.zeros(3, dtype=torch.complex64),
    }  # fmt: skip
    ours, theirs = os.path.join(folder, "ours"), os.path.join(folder, "theirs")
    safetensors.torch.save_file(tensors, ours, metadata)
    safetensors.torch.serialize_file = safetensors.serialize_file
    safetensors.torch.save_file(tensors, theirs, metadata)
    return (stored_bytes(theirs) - stored_bytes(ours)) / MIB


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}])
def test_safetensors_files_are_read_as_the_library_writes_them(trace, tmp_path, metadata):
    """6 MiB of zeros are not on disk."""
    package = pytest.importorskip("safetensors", "0.8")

    assert trace(written_twice, str(tmp_path), metadata).value == pytest.approx(6, abs=0.1)

    with (
        package.safe_open(tmp_path / "ours", "pt") as ours,
        package.safe_open(tmp_path / "theirs", "pt") as theirs,
    ):
        assert ours.metadata() == theirs.metadata() == metadata
        assert ours.keys() == theirs.keys()
        for name in theirs.keys():  # noqa: SIM118 - no mapping
            assert torch.equal(ours.get_tensor(name), theirs.get_tensor(name)), name
            assert ours.get_tensor(name).dtype is theirs.get_tensor(name).dtype, name


def opened_by_safetensors(path):
    """As transformers and accelerate read what ``save_pretrained`` wrote."""
    import safetensors.torch

    model = nn.Linear(512, 512, dtype=torch.bfloat16, device="cuda")
    model.register_buffer("steps", torch.tensor([1, 2], device="cuda"))
    half = {"half": model.weight[:256].clone()}
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


def loaded_onto_a_card(path):
    import safetensors.torch

    safetensors.torch.save_file({"large": torch.empty(2**28, device="cuda"), "ids": torch.arange(9)}, path)
    loaded = safetensors.torch.load_file(path, device="cuda")
    pinned = torch.empty(2**28, pin_memory=True)  # what the library had, which PyTorch keeps
    is_unread = ctypes.CDLL(None).stand_in_host_is_untouched
    is_unread.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return is_unread(pinned.data_ptr(), pinned.nbytes), {
        name: [str(one.device), one.numel()] for name, one in loaded.items()
    }


def test_a_large_tensor_of_safetensors_is_loaded_onto_a_card_without_being_read(trace, tmp_path):
    """1 GiB, which the library copies through pinned memory since 0.8."""
    pytest.importorskip("safetensors", "0.8")

    traced = trace(loaded_onto_a_card, str(tmp_path / "model.safetensors"))

    assert traced.value == [1, {"large": ["cuda:0", 2**28], "ids": ["cuda:0", 9]}]
    assert traced.allocated == 2**30 + 512
    assert traced.report.host.peak_bytes == 2**30 + 128  # pinned memory: in powers of two


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
