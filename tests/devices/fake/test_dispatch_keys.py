"""Keys of the fake tensors' cache: two calls have the same one just where torch's own keys are the same."""

import itertools

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode, _BypassDispatchCache, _CacheKeyState

from pytest_membudget.devices.fake import dispatch_keys
from pytest_membudget.devices.fake.private import torch_release

if not dispatch_keys.knows_this_torch():
    pytest.skip("keys of ours are not made for this torch", allow_module_level=True)

ADD = torch.ops.aten.add.Tensor
MUL = torch.ops.aten.mul.Tensor
LISTS = torch.ops.aten._foreach_add.List


def calls(mode):
    """Calls that differ in one thing each, and some that do not."""
    with mode:
        plain = torch.empty(4, 6)
        view = torch.empty(48)[:24].view(4, 6)
        with torch.inference_mode():
            inferred = torch.empty(4, 6)
        tensors = [
            plain,
            torch.empty(4, 6),
            torch.empty(4, 6, dtype=torch.bfloat16),
            torch.empty(6, 4),
            torch.empty(6, 4).t(),
            torch.empty(24),
            torch.empty(1, 4, 6),
            torch.empty(4, 6, requires_grad=True),
            torch.nn.Parameter(torch.empty(4, 6)),
            torch.nn.Parameter(torch.empty(4, 6), requires_grad=False),
            view,
            torch.empty(48)[24:].view(4, 6),
            torch.empty(4, 12)[:, :6],
            torch.empty(4, 6, dtype=torch.complex64),
            torch.empty(4, 6, dtype=torch.complex64).conj(),
            torch.empty(4, 6, dtype=torch.complex64).imag,
            torch._neg_view(torch.empty(4, 6)),
            torch.empty(1, 3, 4, 4),
            torch.empty(1, 3, 4, 4).to(memory_format=torch.channels_last),
            inferred,
            torch.empty(()),
            torch.empty(0),
        ]
    yield from ((ADD, (tensor, plain), {}) for tensor in tensors)
    yield from ((ADD, (plain, number), {}) for number in (1, 1.0, True, 2, None, "1", torch.float32))
    yield from ((ADD, (plain, plain), {"alpha": alpha}) for alpha in (1, 1.0, 2))
    yield ADD, (plain, plain), {"beta": 1}
    yield MUL, (plain, plain), {}
    yield from ((LISTS, (some, [plain]), {}) for some in ([plain], (plain,), [plain, plain], [view], []))
    yield from ((LISTS, ([plain], some), {}) for some in ([plain, plain], [[plain]], [1], [1, 1], [True]))
    yield from ((ADD, (plain,), {"device": torch.device(name)}) for name in ("cpu", "cuda:0", "cuda:1"))
    if torch_release() < (2, 15):  # whose own keys say which device the current one is: it never changes here
        yield ADD, (plain,), {"device": torch.device("cuda")}
    yield ADD, (plain,), {"shape": torch.Size((4, 6))}
    yield ADD, (plain,), {"shape": (4, 6)}
    yield ADD, (plain,), {"shape": [4, 6]}
    yield ADD, (plain,), {"memory_format": torch.channels_last}


def keys(make, mode, found):
    state = _CacheKeyState(None)
    return [make(mode, state, func, args, kwargs) for func, args, kwargs in found]


def test_they_distinguish_what_torchs_own_distinguish():
    mode = FakeTensorMode()
    found = list(calls(mode))

    own, torchs = (keys(make, mode, found) for make in (dispatch_keys.cache_key, FakeTensorMode._cache_key))

    pairs = list(itertools.combinations(range(len(found)), 2))
    assert len(pairs) > 1000
    differ = [(found[a], found[b]) for a, b in pairs if (own[a] == own[b]) != (torchs[a] == torchs[b])]
    assert not differ
    assert sum(torchs[a] == torchs[b] for a, b in pairs) > 2
    again = keys(dispatch_keys.cache_key, mode, found)
    assert list(map(hash, again)) == list(map(hash, own))


@pytest.mark.parametrize("setting", ["dtype", "inference"])
def test_they_distinguish_settings_of_the_thread(setting):
    mode = FakeTensorMode()
    with mode:
        tensor = torch.empty(4)
    (before,) = keys(dispatch_keys.cache_key, mode, [(ADD, (tensor, 1), {})])
    if setting == "dtype":
        torch.set_default_dtype(torch.float64)
        try:
            (after,) = keys(dispatch_keys.cache_key, mode, [(ADD, (tensor, 1), {})])
        finally:
            torch.set_default_dtype(torch.float32)
    else:
        with torch.inference_mode():
            (after,) = keys(dispatch_keys.cache_key, mode, [(ADD, (tensor, 1), {})])

    assert before != after


@pytest.mark.parametrize("kind", ["real", "another mode's", "constant", "sparse", "function"])
def test_where_torch_makes_none_there_is_none(kind):
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with mode:
        tensor = torch.empty(4, 4)
        places = torch.empty(2, 3, dtype=torch.int64)
        sparse = torch.sparse_coo_tensor(places, torch.empty(3), (4, 4), check_invariants=False)
        constant = torch.tensor(3.0)
    with FakeTensorMode():
        other = torch.empty(4)
    args = {
        "real": torch.ones(4),
        "another mode's": other,
        "constant": constant,
        "sparse": sparse,
        "function": lambda: None,
    }

    for make in (dispatch_keys.cache_key, FakeTensorMode._cache_key):
        with pytest.raises(_BypassDispatchCache):
            make(mode, _CacheKeyState(None), ADD, (tensor, args[kind]), {})


def with_torchs_own_keys(body):
    from pytest_membudget.devices.fake.mode import VirtualMode

    VirtualMode._cache_key = FakeTensorMode._cache_key
    return body()


def steps():
    """Views, lists, reductions, convolutions, attention, in-place work, other types, host memory."""
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, device="cuda")
    stack = torch.nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
    picture = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU()).cuda()
    parameters = [*stack.parameters(), *picture.parameters()]
    optimizer = torch.optim.AdamW(parameters)
    for tokens in (16, 16, 24):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            out = stack(torch.randn(2, tokens, 64, device="cuda")).float().log_softmax(-1)
            image = torch.randn(1, 3, tokens, tokens, device="cuda")
            seen = picture(image.contiguous(memory_format=torch.channels_last))
        (out.mean() + seen.sum()).backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        kept = [parameter.detach().cpu() for parameter in parameters]
    return FakeTensorMode.cache_info().hits, FakeTensorMode.cache_info().misses, len(kept)


def steps_with_torchs_own_keys():
    return with_torchs_own_keys(steps)


def test_a_trace_is_the_same_with_torchs_own_keys(trace):
    own, torchs = trace(steps), trace(steps_with_torchs_own_keys)

    assert own.value == torchs.value
    assert own.value[0] > 100
    first, second = (each.report.to_json() for each in (own, torchs))
    for report in (first, second):
        del report["seconds"]
    assert first == second


def test_other_releases_have_torchs_own():
    assert dispatch_keys.knows_this_torch("2.13.0+cu130")
    assert not any(map(dispatch_keys.knows_this_torch, ("2.11.0", "2.99.1", "nightly", "3")))
