"""The virtual device by all of its names: cuda, cuda:0, the number 0, a default, an old type."""

import copy
import pickle
import re

import pytest
import torch
from torch import nn


def by_number():
    local_rank = torch.cuda.current_device()
    moved = nn.Linear(4, 4).to(local_rank)
    tensors = [
        torch.randn(2, device=0),
        torch.randn(2, device=local_rank),
        torch.randn(2).to(0),
        torch.randn(2).to(device=0),
        torch.randn(2).cuda(0),
        torch.randn(2).cuda(),
        torch.randn(2).cuda(torch.device("cuda"), non_blocking=True),
        nn.Linear(4, 4).cuda(local_rank).weight,
        nn.Linear(4, 4, device=torch.device(0)).weight,
        moved(torch.randn(1, 4, device=0)),
    ]
    return [str(tensor.device) for tensor in tensors], torch.cuda.memory_allocated() > 0


def test_a_number_names_the_virtual_device(trace):
    assert trace(by_number).value == [["cuda:0"] * 10, True]


def weight_by_number():
    model = nn.Linear(1024, 1024, bias=False, device=torch.cuda.current_device())
    with torch.inference_mode():
        model.to(0)
        torch.zeros(1024, 1024).to(0)


def test_memory_on_a_numbered_device_is_counted(trace):
    traced = trace(weight_by_number)

    assert traced.parameters == 4 * 2**20
    assert traced.allocated == 8 * 2**20


def already_there():
    x, model = torch.zeros(4, device=0), nn.Linear(4, 4, device=0)
    weight = model.weight.data_ptr()
    place = torch.nn.Module.to(model, 0).weight.data_ptr() == weight
    kept = [
        x.to(0),
        x.to(device=0),
        x.to(0, torch.float32),
        x.to(torch.device(0)),
        x.to(x),
        x.to(torch.float),
    ]
    moved = [x.to(0, copy=True), x.to(0, torch.half), x.to("cpu")]
    return [one is x for one in kept], [one is x for one in moved], place


def test_what_lies_on_the_numbered_device_is_not_copied(trace):
    traced = trace(already_there)

    assert traced.value == [[True] * 6, [False] * 3, True]
    assert traced.allocated == 5 * 512  # x, weight and bias, and two copies


def device_objects():
    device = torch.device(0)
    return [
        str(device), device.type, device.index, device == torch.device("cuda:0"),
        isinstance(device, torch.device), isinstance("cuda", torch.device), str(torch.device("cuda", 0)),
        str(torch.device(type="cpu")), str(copy.deepcopy(device)), str(pickle.loads(pickle.dumps(device))),
        repr(torch.device | None),
    ]  # fmt: skip


def test_devices_are_those_of_a_machine_with_cuda(trace):
    assert trace(device_objects).value == [
        "cuda:0", "cuda", 0, True, True, False, "cuda:0", "cpu", "cuda:0", "cuda:0", "torch.device | None",
    ]  # fmt: skip


def custom_operator():
    @torch.library.custom_op("membudget_test::copied", mutates_args=())
    def copied(x: torch.Tensor, device: torch.device) -> torch.Tensor:
        return x.to(device, copy=True)

    @copied.register_fake
    def _(x, device):
        return torch.empty_like(x, device=device)

    return str(copied(torch.randn(3), torch.device("cuda")).device)


def test_an_operator_can_be_annotated_with_a_device(trace):
    assert trace(custom_operator).value == "cuda:0"


def defaults():
    seen = []
    torch.set_default_device("cuda")
    seen += [torch.randn(3), nn.Linear(3, 3).weight, torch.tensor([1]), torch.arange(3), torch.randperm(4)]
    seen.append(torch.zeros(2, device="cpu"))
    torch.set_default_device(None)
    seen.append(torch.zeros(2))
    with torch.device("cuda"):
        seen += [torch.empty(2), nn.Linear(2, 2).weight]
    torch.set_default_dtype(torch.bfloat16)
    seen.append(torch.zeros(2, device="cuda"))
    return [str(tensor.device) for tensor in seen], str(seen[-1].dtype)


def test_cuda_can_be_the_default(trace):
    assert trace(defaults).value == [
        ["cuda:0"] * 5 + ["cpu", "cpu"] + ["cuda:0"] * 3,
        "torch.bfloat16",
    ]


def what_a_tensor_says(device):
    x = torch.ones(2, 3, device=device)
    return [
        x.is_cuda, x.is_cpu, x.get_device(), x.type(), x.is_meta, x.device.type, x.new_zeros(1).device.type,
        torch.empty_like(x).device.type, x.data.device.type, x.nbytes, x.element_size(), torch.is_tensor(x),
        isinstance(x, torch.Tensor), x.is_shared(), x.untyped_storage().nbytes(),
    ]  # fmt: skip


def test_a_tensor_says_where_it_is(trace):
    assert trace(what_a_tensor_says, "cuda").value == [
        True, False, 0, "torch.cuda.FloatTensor", False, "cuda", "cuda", "cuda", "cuda", 24, 4, True, True,
        True, 24,
    ]  # fmt: skip
    assert trace(what_a_tensor_says, "cpu").value == [
        False, True, -1, "torch.FloatTensor", False, "cpu", "cpu", "cpu", "cpu", 24, 4, True, True, False, 24,
    ]  # fmt: skip


def old_types():
    x = torch.cuda.FloatTensor([1, 2])
    y = torch.randn(2).type("torch.cuda.HalfTensor")
    z = torch.randn(2).type(torch.cuda.LongTensor)
    back = x.type("torch.FloatTensor")
    checks = [
        isinstance(x, torch.cuda.FloatTensor), isinstance(back, torch.cuda.FloatTensor),
        isinstance(back, torch.FloatTensor), torch.cuda.LongTensor(2, 3).type(), y.type(), z.type(),
        back.type(), x.type(torch.float64).type(), x.type_as(back).type(), x.tolist(),
    ]  # fmt: skip
    torch.set_default_tensor_type(torch.cuda.FloatTensor)
    checks.append(torch.zeros(2).type())
    torch.set_default_tensor_type(torch.FloatTensor)
    return [*checks, torch.zeros(2).type()]


def test_old_type_names_work(trace):
    assert trace(old_types).value == [
        True, False, True, "torch.cuda.LongTensor", "torch.cuda.HalfTensor", "torch.cuda.LongTensor",
        "torch.FloatTensor", "torch.cuda.DoubleTensor", "torch.FloatTensor", [1.0, 2.0],
        "torch.cuda.FloatTensor", "torch.FloatTensor",
    ]  # fmt: skip


def addresses():
    x, y = torch.zeros(2, 3, device="cuda"), torch.zeros(2, 3, device="cuda")
    return [
        x.data_ptr() == x.view(6).data_ptr(), x.data_ptr() == y.data_ptr(), x.data_ptr() % 256,
        x[1].data_ptr() - x.data_ptr(), x.untyped_storage().data_ptr() == x.data_ptr(),
        torch.empty(0, device="cuda").data_ptr(),
    ]  # fmt: skip


def test_tensors_that_share_memory_have_equal_addresses(trace):
    assert trace(addresses).value == [True, False, 0, 12, True, 0]


def mixed(how):
    half, single = torch.randn(2, 2, device="cuda").half(), torch.randn(2, 2, device="cuda")
    try:
        return {
            "product of types": lambda: single @ half,
            "linear of types": lambda: nn.Linear(2, 2, device="cuda")(half),
            "product of devices": lambda: single @ torch.randn(2, 2),
            "sum of devices": lambda: single + torch.randn(2, 2),
        }[how]()
    except RuntimeError as error:
        return str(error)


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("product of types", "expected both matrices to have the same dtype, but got: float32 != float16"),
        ("linear of types", "expected both matrices to have the same dtype, but got: float16 != float32"),
        ("product of devices", "two (different )?devices"),
        ("sum of devices", "two (different )?devices"),
    ],
)
def test_what_cuda_refuses_is_refused(trace, how, text):
    assert re.search(text, trace(mixed, how).value)
