"""Checkpoints: a hole in the file for what nobody has computed, loaded by their shapes; real ones too."""

import ctypes
import gzip
import io
import os
import pickle

import pytest
import torch
from torch import nn

pytestmark = pytest.mark.slow

MIB = 2**20


def stored_bytes(path):
    """What a file, or the files of a folder, take on disk."""
    paths = [os.path.join(path, name) for name in os.listdir(path)] if os.path.isdir(path) else [path]
    return sum(os.stat(one).st_blocks * 512 for one in paths)


def is_small(path):
    return stored_bytes(path) < 100_000


def model_with_steps(**options):
    """1 MiB of weights in fp32, 2 KiB of biases, and two numbers that are known."""
    model = nn.Linear(512, 512, device="cuda", **options)
    model.register_buffer("steps", torch.tensor([1, 2], device="cuda"))
    return model


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "saved")


def saved(path, map_location, weights_only, is_new):
    model = model_with_steps()
    torch.save({"model": model.state_dict(), "step": 3}, path, _use_new_zipfile_serialization=is_new)
    places = {"function": lambda storage, location: storage, "dict": {"cuda:0": "cpu"}}
    loaded = torch.load(path, map_location=places.get(map_location, map_location), weights_only=weights_only)
    model.load_state_dict(loaded["model"])
    weight = loaded["model"]["weight"]
    return [
        is_small(path), os.path.getsize(path) > MIB, str(weight.device), list(weight.shape),
        weight.requires_grad, loaded["model"]["steps"].tolist(), loaded["step"],
    ]  # fmt: skip


@pytest.mark.parametrize("is_new", [True, False])
@pytest.mark.parametrize(
    ("map_location", "device", "weights_only"),
    [
        (None, "cuda:0", True), ("cpu", "cpu", True), ("cuda", "cuda:0", False), ("function", "cpu", True),
        ("dict", "cpu", False),
    ],
)  # fmt: skip
def test_a_checkpoint_is_saved_and_loaded_without_its_data(
    trace, path, map_location, device, weights_only, is_new
):
    traced = trace(saved, path, map_location, weights_only, is_new)

    assert traced.value == [True, True, device, [512, 512], False, [1, 2], 3]
    # the model, and what is loaded where it lay
    assert traced.allocated == (1 + (device != "cpu")) * (MIB + 2048 + 512)
    assert traced.report.caveats == ()


def saved_for_others(folder):
    model = model_with_steps()
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
    return list(loaded["weight"].shape), loaded["ids"].tolist(), is_small(path)


def saved_to_streams(path):
    """A file that is appended to has no holes."""
    weight = torch.empty(512, 512, device="cuda")
    buffer = io.BytesIO()
    torch.save(weight, buffer)
    buffer.seek(0)
    shapes, sizes = [list(torch.load(buffer).shape)], [len(buffer.getvalue()) < MIB]
    for name, opened in (("plain", open), ("appended", open), ("packed", gzip.open)):
        with opened(path + name, "ab" if name == "appended" else "wb") as stream:
            torch.save(weight, stream)
        with opened(path + name, "rb") as stream:
            shapes.append(list(torch.load(stream).shape))
        sizes.append(is_small(path + name))
    return shapes, sizes


def computed_on_the_host(path):
    """8 MiB of numbers; zeros that nobody has written are as good as a hole."""
    ids, zeros = torch.arange(MIB), torch.zeros(MIB)
    torch.save({"ids": ids, "zeros": zeros}, path)
    loaded = torch.load(path)
    return torch.equal(loaded["ids"], ids), loaded["zeros"].sum().item(), stored_bytes(path) // MIB


def pickled(path):
    """``all_gather_object`` allocates as much as a pickle is long."""
    weight = torch.empty(512, 512, device="cuda")
    data = pickle.dumps({"weight": weight, "ids": torch.arange(3, device="cuda")})
    again = pickle.loads(data)
    return len(data) > MIB, list(again["weight"].shape), str(again["weight"].device), again["ids"].tolist()


def saved_module(path):
    """A saved module stays tied."""
    tied = nn.Sequential(nn.Linear(8, 8, bias=False), nn.Linear(8, 8, bias=False)).cuda()
    tied[1].weight = tied[0].weight
    torch.save(tied, path)
    loaded = torch.load(path, weights_only=False)
    return [
        loaded[0].weight is loaded[1].weight, isinstance(loaded[0].weight, nn.Parameter),
        loaded[0].weight.requires_grad, pickle.loads(pickle.dumps(torch.arange(3))).tolist(),
    ]  # fmt: skip


def saved_by_safetensors(path):
    import safetensors.torch

    model = nn.Linear(512, 512, bias=False, device="cuda")
    safetensors.torch.save_file(model.state_dict(), path, metadata={"format": "pt"})
    loaded = safetensors.torch.load_file(path, device="cuda")["weight"]
    again = safetensors.torch.load(safetensors.torch.save({"ids": torch.arange(3)}))
    return is_small(path), list(loaded.shape), str(loaded.device), again["ids"].tolist()


SHAPE = [512, 512]


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (saved_mapped, [SHAPE, [*range(9)], True]),
        (saved_to_streams, [4 * [SHAPE], [False, True, False, True]]),
        (computed_on_the_host, [True, 0, 8]),
        (pickled, [True, SHAPE, "cuda:0", [0, 1, 2]]),
        (saved_module, [True, True, True, [0, 1, 2]]),
        (saved_by_safetensors, [True, SHAPE, "cuda:0", [0, 1, 2]]),
    ],
)
def test_what_is_written_is_read_again(trace, path, body, value):
    if body is saved_by_safetensors:
        pytest.importorskip("safetensors")

    traced = trace(body, path)

    assert traced.value == value
    assert traced.report.caveats == ()


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
def test_steps_are_counted_on_after_a_checkpoint(trace, path, is_new):
    traced = trace(continued, path, is_new)

    assert traced.value == [2, 4, 4]
    assert traced.report.caveats == ()


def read_again(path, is_new, device):
    loss = torch.randn(64, device="cuda").mean()
    torch.save(loss, path, _use_new_zipfile_serialization=is_new)
    return torch.load(path, map_location=device).item() > 0


@pytest.mark.parametrize("is_new", [True, False])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_what_nobody_knows_is_not_known_when_it_is_loaded(trace, path, device, is_new):
    (caveat,) = trace(read_again, path, is_new, device).report.caveats

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
                read = {"slice": lambda name: file.get_slice(name)[: count // 2], "opened": file.get_tensor}
                loaded = {"weight": read[way]("weight")}
    return int((loaded["weight"] > 0).sum()) > 0


@pytest.mark.parametrize("count", [100, MIB])
@pytest.mark.parametrize("way", ["mapped", "bytes", "cpu", "cuda", "opened", "slice"])
def test_what_is_read_of_a_file_of_unknown_values_is_listed(trace, path, way, count):
    if way != "mapped":
        pytest.importorskip("safetensors", "0.8")

    caveats = trace(counted, path, way, count).report.caveats

    assert [caveat for caveat in caveats if "read" in str(caveat.text)], caveats


def masks(path, way):
    mask = (torch.randn(4, 50, device="cuda") > 0).cpu()
    if way == "pickle":
        loaded = pickle.loads(pickle.dumps(mask))
    else:
        torch.save(mask, path, _use_new_zipfile_serialization=way == "new")
        loaded = torch.load(path)
    return len(torch.arange(200).view(4, 50)[loaded])


@pytest.mark.parametrize("way", ["pickle", "new", "old"])
def test_a_mask_that_nobody_knows_selects_all_when_it_is_loaded(trace, path, way):
    assert trace(masks, path, way).value == 200


def distributed(path, stager):
    from torch.distributed import checkpoint
    from torch.distributed.checkpoint.staging import BlockingAsyncStager

    model = model_with_steps()
    if stager is None:
        checkpoint.save(model.state_dict(), checkpoint_id=path)
    else:
        stagers = {"default": None, "blocking": BlockingAsyncStager()}
        checkpoint.async_save(model.state_dict(), checkpoint_id=path, async_stager=stagers[stager]).result()
    model.steps.zero_()
    state = model.state_dict()
    checkpoint.load(state, checkpoint_id=path)
    return is_small(path), list(state["weight"].shape), state["steps"].tolist()


@pytest.mark.parametrize("stager", [None, "default", "blocking"])
def test_a_distributed_checkpoint_is_saved_and_loaded_without_its_data(trace, path, stager):
    traced = trace(distributed, path, stager)

    assert traced.value == [True, SHAPE, [1, 2]]
    assert traced.report.caveats == ()


def loaded_from(path):
    import safetensors.torch

    zipped = torch.load(path + ".pt", map_location="cuda", weights_only=True)["weight"]
    host = safetensors.torch.load_file(path)["weight"]
    before = torch.cuda.memory_allocated()
    device = safetensors.torch.load_file(path, device="cuda")["weight"]
    with safetensors.safe_open(path, "pt", device="cuda:0") as file:
        part = file.get_slice("weight")[:256]
    places = [[list(one.shape), str(one.device)] for one in (zipped, host, device, part)]
    return places, before, torch.cuda.memory_allocated()


def test_real_files_are_loaded_by_their_shapes(trace, path):
    library = pytest.importorskip("safetensors.torch")
    library.save_file({"weight": torch.randn(512, 512)}, path)
    torch.save({"weight": torch.randn(512, 512)}, path + ".pt")

    assert trace(loaded_from, path).value == [
        [[SHAPE, "cuda:0"], [SHAPE, "cpu"], [SHAPE, "cuda:0"], [[256, 512], "cuda:0"]],
        MIB, 2 * MIB + MIB // 2,
    ]  # fmt: skip


def saved_without_values(path, metadata):
    import safetensors.torch

    tensors = {
        "known": torch.arange(3), "few": torch.randn(3, device="cuda"), "\N{HEAVY CHECK MARK}": torch.ones(2),
        "many": torch.randn(MIB, device="cuda"),
    }  # fmt: skip
    safetensors.torch.save_file(tensors, path, metadata)
    loaded = safetensors.torch.load_file(path)
    return {name: list(tensor.shape) for name, tensor in loaded.items()}, loaded["known"].tolist()


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}])
def test_the_library_reads_files_with_unknown_values(trace, path, metadata):
    package = pytest.importorskip("safetensors", "0.8")
    shapes = {"known": [3], "few": [3], "\N{HEAVY CHECK MARK}": [2], "many": [MIB]}

    traced = trace(saved_without_values, path, metadata)

    assert traced.value == [shapes, [0, 1, 2]]
    assert traced.report.caveats == ()
    with package.safe_open(path, "pt") as file:
        assert file.metadata() == metadata
        assert {name: file.get_slice(name).get_shape() for name in file.keys()} == shapes  # noqa: SIM118
        assert file.get_tensor("known").tolist() == [0, 1, 2]
        assert file.get_tensor("\N{HEAVY CHECK MARK}").tolist() == [1, 1]


def written_twice(path, metadata):
    """With holes, and by the library's own code."""
    import safetensors.torch

    tensors = {
        "ids": torch.arange(MIB), "zeros": torch.zeros(MIB), "half": torch.zeros(MIB, dtype=torch.half),
        "f\u00fcr": torch.arange(7), "flags": torch.tensor([True, False]), "none": torch.zeros(0, 4),
        "one": torch.tensor(0.5), "complex": torch.zeros(3, dtype=torch.complex64),
    }  # fmt: skip
    safetensors.torch.save_file(tensors, path, metadata)
    safetensors.torch.serialize_file = safetensors.serialize_file
    safetensors.torch.save_file(tensors, path + "-theirs", metadata)
    return (stored_bytes(path + "-theirs") - stored_bytes(path)) / MIB


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}])
def test_safetensors_files_are_read_as_the_library_writes_them(trace, path, metadata):
    """6 MiB of zeros are not on disk."""
    package = pytest.importorskip("safetensors", "0.8")

    assert trace(written_twice, path, metadata).value == pytest.approx(6, abs=0.1)

    with package.safe_open(path, "pt") as ours, package.safe_open(path + "-theirs", "pt") as theirs:
        assert ours.metadata() == theirs.metadata() == metadata
        assert ours.keys() == theirs.keys()
        for name in theirs.keys():  # noqa: SIM118 - no mapping
            assert torch.equal(ours.get_tensor(name), theirs.get_tensor(name)), name
            assert ours.get_tensor(name).dtype is theirs.get_tensor(name).dtype, name


def opened_by_safetensors(path):
    """As transformers and accelerate read what ``save_pretrained`` wrote."""
    import safetensors.torch

    model = model_with_steps(dtype=torch.bfloat16)
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


def test_safetensors_opens_what_it_saved_without_data(trace, path):
    pytest.importorskip("safetensors")
    weight = 512 * 512 * 2

    assert trace(opened_by_safetensors, path).value == [
        ["bias", "half", "steps", "weight"], {"format": "pt"}, SHAPE, "BF16",
        [[128, 512], SHAPE, [256, 512], [2]], [1, 2], True, False,
        weight // 4 + weight + weight // 2 + 512,
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


def test_a_large_tensor_of_safetensors_is_loaded_onto_a_card_without_being_read(trace, path):
    """1 GiB, which the library copies through pinned memory since 0.8."""
    pytest.importorskip("safetensors", "0.8")

    traced = trace(loaded_onto_a_card, path)

    assert traced.value == [1, {"large": ["cuda:0", 2**28], "ids": ["cuda:0", 9]}]
    assert traced.allocated == 2**30 + 512
    assert traced.report.host.peak_bytes == 2**30 + 128  # pinned memory: in powers of two


#: 2 layers of width 64, 100 tokens, 32 positions.
SMALL = {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 100, "n_positions": 32}
COUNT = 2 * (4 * 64 + 64 * 192 + 192 + 64 * 64 + 64 + 64 * 256 + 256 + 256 * 64 + 64) + 2 * 64 + 132 * 64


def pretrained(path, is_saved):
    from transformers import GPT2Config, GPT2LMHeadModel

    if not is_saved:
        GPT2LMHeadModel(GPT2Config(**SMALL)).save_pretrained(path)
    model = GPT2LMHeadModel.from_pretrained(path, **({"dtype": torch.bfloat16} if is_saved else {})).to(
        "cuda"
    )
    model(torch.zeros(1, 4, dtype=torch.long, device="cuda"))
    return str(model.device), str(model.dtype)


@pytest.mark.parametrize(("is_saved", "dtype", "number"), [(True, "bfloat16", 2), (False, "float32", 4)])
def test_a_pretrained_model_is_loaded_onto_the_device(trace, path, is_saved, dtype, number):
    """transformers loads in threads; a model that was saved for real, and one that was saved by the body."""
    transformers = pytest.importorskip("transformers")
    if is_saved:
        transformers.GPT2LMHeadModel(transformers.GPT2Config(**SMALL)).save_pretrained(path)

    traced = trace(pretrained, path, is_saved)

    assert traced.value == ["cuda:0", f"torch.{dtype}"]
    assert traced.parameters == number * COUNT
