"""Convolutions on the stand-in: PyTorch's own code, with plans that the real cuDNN makes for the card.

Workspaces are compared with public allocator histories of real GPUs, and with the answers of cuDNN when asked
directly (``cudnn_questions``).
"""

import ctypes
import threading

import pytest
import torch
from allocations import not_modelled, requests, without
from cudnn_questions import Convolution, Direction, needs_cudnn, workspace_bytes, workspaces_of

F = torch.nn.functional

pytestmark = needs_cudnn


def bytes_of(shape, element_bytes=4):
    count = element_bytes
    for size in shape:
        count *= size
    return count


def convolution_requests(x, w, options, dtype="float32", channels_last=False, flags=()):
    """The workspaces of forward, input gradient and weight gradient; other allocations are taken out."""
    torch.backends.cudnn.deterministic = "deterministic" in flags
    dtype = getattr(torch, dtype)
    tensor = torch.empty(x, dtype=dtype, device="cuda")
    weight = torch.empty(w, dtype=dtype, device="cuda")
    if channels_last:
        tensor = tensor.to(memory_format=torch.channels_last)
        weight = weight.to(memory_format=torch.channels_last)
    tensor.requires_grad_()
    weight.requires_grad_()
    layer = {4: F.conv2d, 5: F.conv3d}[len(x)]
    if "transposed" in flags:
        layer = F.conv_transpose2d
    output = []
    forward = requests(lambda: output.append(layer(tensor, weight, **options)))
    gradient = torch.empty_like(output[0])
    of_input = requests(lambda: torch.autograd.grad(output, tensor, gradient, retain_graph=True))
    of_weight = requests(lambda: torch.autograd.grad(output, weight, gradient))
    return [
        without(forward, output[0].nbytes),
        without(of_input, tensor.nbytes),
        without(of_weight, weight.nbytes),
    ]


RECORDED = [
    # JasperSolt/EoR_NN@6686e9f snapshot.pickle: 3 x 3 convolutions in fp32 of one image (torch 2.3, A100)
    (Direction.FORWARD, 30, 16, 256, 82_880),
    (Direction.FORWARD, 16, 32, 128, 51_328),
    (Direction.FORWARD, 32, 64, 64, 205_056),
    (Direction.INPUT_GRADIENT, 32, 64, 64, 204_928),
    (Direction.INPUT_GRADIENT, 16, 32, 128, 84_032),
    (Direction.INPUT_GRADIENT, 30, 16, 256, 50_168),
]


@pytest.mark.parametrize(("direction", "channels", "width", "size", "recorded"), RECORDED)
def test_the_recorded_workspaces_are_requested(stand_in, direction, channels, width, size, recorded):
    shapes = (1, channels, size, size), (width, channels, 3, 3)

    workspaces = stand_in(convolution_requests, *shapes, {"padding": 1})

    assert workspaces[list(Direction).index(direction)] == [recorded]


X8, W8, Y8 = (8, 64, 56, 56), (128, 64, 3, 3), (8, 128, 56, 56)
LAYERS = {
    # name: x, w, y, padding, stride, dtype, channels last, flags
    "bf16": (X8, W8, Y8, 1, 1, "bfloat16", False, ()),
    "channels-last": (X8, W8, Y8, 1, 1, "bfloat16", True, ()),
    "strided": (X8, W8, (8, 128, 28, 28), 1, 2, "float32", False, ()),
    "grouped": (X8, (64, 2, 3, 3), X8, 1, 1, "float32", False, ()),
    "3d": ((2, 16, 16, 28, 28), (32, 16, 3, 3, 3), (2, 32, 16, 28, 28), 1, 1, "float32", False, ()),
    "deterministic": (X8, W8, Y8, 1, 1, "float16", False, ("deterministic",)),
    # planned as the gradient that it is: of the small maps by large ones
    "transposed": ((8, 32, 58, 58), (64, 32, 4, 4), (8, 64, 28, 28), 0, 2, "float32", False, ("transposed",)),
}


@pytest.mark.parametrize(
    ("name", "gpu"),
    [*((name, "A100-80GB") for name in LAYERS), ("bf16", "H100-80GB"), ("strided", "H100-80GB")],
)
def test_workspaces_are_those_that_cudnn_plans_for_the_card(stand_in, name, gpu):
    x, w, y, padding, stride, dtype, channels_last, flags = LAYERS[name]
    each = {"padding": padding, "stride": stride, "dilation": 1}
    options = {"padding": padding, "stride": stride, "groups": x[1] // w[1]}
    question = {
        **{key: (value,) * (len(x) - 2) for key, value in each.items()},
        "dtype": dtype,
        "channels_last": channels_last,
        "deterministic": "deterministic" in flags,
    }
    planned = [
        workspace_bytes(stand_in, Convolution(direction.name, x, w, y, **question), gpu)
        for direction in Direction
    ]
    if "transposed" in flags:
        x, planned[:2] = y, planned[1::-1]

    requested = stand_in(
        convolution_requests, x, w, options, dtype, channels_last, flags, gpu=gpu,
        not_modelled=[CLUSTERS] if gpu.startswith("H100") else [],
    )  # fmt: skip

    assert [sum(sizes) for sizes in requested] == planned


CLUSTERS = "cudnnBackendFinalize (convolution in clusters, from Hopper on: up to 9 MiB more on an H100)"
PRODUCT = "cudnnBackendFinalize (convolution by cuBLASLt: up to 9 MiB more on an H100)"


def listed(x, w, dtype):
    convolution_requests(x, w, {"padding": w[-1] // 2}, dtype)
    return not_modelled()


@pytest.mark.parametrize(
    ("gpu", "x", "w", "dtype", "names"),
    [
        # torch 2.11, cuDNN 9.19, H200: the weight's gradient took 104,972,967 bytes for 103,203,027
        ("H200-141GB", (64, 64, 56, 56), (64, 64, 3, 3), "float32", [CLUSTERS]),
        ("A100-80GB", (64, 64, 56, 56), (64, 64, 3, 3), "float32", []),
        # the same on an H100: the output took a workspace of 400 bytes, where the plan has none
        ("H100-80GB", (64, 64, 56, 56), (64, 64, 1, 1), "float32", [PRODUCT]),
        ("A100-80GB", (64, 64, 56, 56), (64, 64, 1, 1), "float32", [PRODUCT]),
        # products that get no workspace: none was taken
        ("H100-80GB", (4, 320, 64, 64), (320, 320, 1, 1), "bfloat16", []),
    ],
)
def test_a_plan_is_listed_whose_workspace_depends_on_the_card(stand_in, gpu, x, w, dtype, names):
    assert stand_in(listed, x, w, dtype, gpu=gpu, not_modelled=names) == names


X, W, Y = (64, 64, 56, 56), (128, 64, 3, 3), (64, 128, 56, 56)
LARGE = {
    direction: Convolution(direction.name, X, W, Y, (1, 1), (1, 1), (1, 1), "float32", False)
    for direction in Direction
}


def repeated_requests(benchmark):
    torch.backends.cudnn.benchmark = benchmark
    tensor, weight = (torch.empty(shape, device="cuda") for shape in (X, W))
    return [requests(lambda: F.conv2d(tensor, weight, padding=1)) for _ in range(2)]


def fourier_bytes(*shapes):
    """Fourier transforms of maps of up to 64 x 64 real numbers: 64 x 33 complex ones of 8 bytes each."""
    return sum(maps * others * 64 * 33 * 8 for maps, others, *_ in shapes)


def test_benchmark_tries_all_plans_in_the_largest_workspace_at_the_first_call(stand_in):
    """The largest is that of the Fourier transform: of the input twice, of weight and output, and a weight.

    cuDNN's support of it depends on cuBLASLt, which multiplies the transforms: the real one would not start.
    """
    planned = workspaces_of(stand_in, LARGE[Direction.FORWARD])
    largest = fourier_bytes(X, X, W, Y) + bytes_of(W)
    assert largest == max(planned) > planned[0]

    first, second = stand_in(repeated_requests, True)

    assert first == [bytes_of(Y), largest, planned[0]]
    assert second == [bytes_of(Y), planned[0]]


def threaded_requests():
    """The same shapes in four threads at once, each planned in its own."""
    shapes = [(4, 16 * (index + 1), 28, 28) for index in range(4)]
    failures = []

    def work(shape):
        try:
            for _ in range(3):
                tensor = torch.empty(shape, device="cuda", requires_grad=True)
                F.conv2d(tensor, torch.empty(8, shape[1], 3, 3, device="cuda")).sum().backward()
        except Exception as error:
            failures.append(repr(error))

    threads = [threading.Thread(target=work, args=(shape,)) for shape in shapes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failures


def test_threads_plan_at_the_same_time(stand_in):
    assert stand_in(threaded_requests) == []


def versions():
    ask = ctypes.CDLL(None).stand_in_cudnn_version
    ask.restype = ctypes.c_char_p
    before = ask()
    F.conv2d(torch.empty(1, 3, 8, 8, device="cuda"), torch.empty(4, 3, 3, 3, device="cuda"))
    return before, ask().decode(), torch.backends.cudnn.version()


def test_the_cudnn_that_was_asked_is_named(stand_in):
    before, named, release = stand_in(versions)

    assert before is None
    assert named == f"{release // 10000}.{release // 100 % 100}.{release % 100}"


def error_of_the_older_api():
    try:
        F.conv2d(torch.empty(1, 3, 8, 8, device="cuda"), torch.empty(4, 3, 3, 3, device="cuda"))
    except RuntimeError as error:
        return str(error)
    return None


def test_the_older_api_of_convolutions_refuses_and_is_recorded(stand_in):
    """Nothing is known of its workspaces: ``TORCH_CUDNN_V8_API_DISABLED`` is an error, not a silent zero."""
    message = stand_in(
        error_of_the_older_api,
        environ={"TORCH_CUDNN_V8_API_DISABLED": "1"},
        not_modelled={"cudnnGetConvolutionForwardAlgorithm_v7", "cudnnGetConvolutionForwardWorkspaceSize"},
    )

    assert message is not None
    assert "cuDNN" in message or "CUDNN" in message
