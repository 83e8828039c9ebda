"""Convolutions on the virtual device: the kernel chosen, how results lie, and what kernels hold beside.

Figures are by hand from the sources' formulas; where a test says "recorded", the figure stands in a public
allocator history of a real GPU.
"""

import pytest
import torch
from pytest_membudget.devices.fake import kernel_convolutions
from pytest_membudget.devices.fake.convolution_choice import Backend, backend_layout, choose_backend
from pytest_membudget.devices.fake.cudnn_library import find_cudnn
from pytest_membudget.devices.fake.cudnn_workspaces import Convolution, Direction, workspace_bytes
from pytest_membudget.devices.fake.kernel_convolutions import CONVOLUTION_BOUNDS, CONVOLUTION_RULES
from pytest_membudget.devices.fake.kernel_pooling import POOLING_RULES

from pytest_membudget.hardware.gpus import find_gpu

aten = torch.ops.aten
A100 = find_gpu("A100-80GB")
T4 = find_gpu("T4")
CHANNELS_LAST = torch.channels_last
HALVES = (torch.float16, torch.bfloat16)


def meta(*shape, dtype=torch.float32, last=False):
    tensor = torch.empty(shape, dtype=dtype, device="meta")
    return tensor.to(memory_format=CHANNELS_LAST) if last else tensor


def chosen(tensor, weight, stride=1, dilation=1, transposed=False, output_padding=0, groups=1, gpu=A100):
    space = weight.dim() - 2
    lists = [[number] * space for number in (stride, dilation)]
    return choose_backend(tensor, weight, *lists, transposed, [output_padding] * space, groups, gpu)


@pytest.fixture
def workspaces(monkeypatch):
    """What cuDNN is to answer, by direction; the questions it was asked."""
    answers, asked = {}, []

    def answer(convolution, gpu):
        asked.append(convolution)
        return answers.get(convolution.direction)

    monkeypatch.setattr(kernel_convolutions, "workspace_bytes", answer)
    answers["asked"] = asked
    return answers


def forward(tensor, weight, *options, gpu=A100):
    options = options or ([1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    args = (tensor, weight, None, *options)
    return CONVOLUTION_RULES[aten.convolution.default](args, {}, aten.convolution.default(*args), gpu)


def backward(gradient, tensor, weight, mask=(True, True, False), gpu=A100):
    args = (gradient, tensor, weight, [weight.shape[0]], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, list(mask))
    result = aten.convolution_backward.default(*args)
    return CONVOLUTION_RULES[aten.convolution_backward.default](args, {}, result, gpu)


# --- the kernel


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, *HALVES])
def test_an_ordinary_convolution_runs_on_cudnn(dtype):
    assert chosen(meta(4, 8, 14, 14, dtype=dtype), meta(16, 8, 3, 3, dtype=dtype)) == Backend.Cudnn


def test_bf16_runs_on_cudnn_from_ampere_on():
    operands = meta(4, 8, 14, 14, dtype=torch.bfloat16), meta(16, 8, 3, 3, dtype=torch.bfloat16)

    assert chosen(*operands, gpu=T4) == Backend.Slow2d


def test_without_cudnn_pytorchs_own_kernels_run():
    operands = meta(4, 8, 14, 14), meta(16, 8, 3, 3)
    with torch.backends.cudnn.flags(enabled=False):
        assert chosen(*operands) == Backend.Slow2d
        assert chosen(*operands, dilation=2) == Backend.SlowDilated2d
        assert chosen(meta(4, 16, 14, 14), meta(16, 8, 3, 3), transposed=True) == Backend.SlowTranspose2d


def test_an_output_padding_as_wide_as_the_stride_is_not_for_cudnn():
    operands = meta(4, 16, 14, 14), meta(16, 8, 3, 3)

    assert chosen(*operands, transposed=True, stride=2, output_padding=1) == Backend.CudnnTranspose
    assert chosen(*operands, transposed=True, stride=2, output_padding=2) == Backend.SlowTranspose2d


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
def test_a_depthwise_convolution_in_channels_last_runs_on_cudnn(dtype):
    tensor, weight = meta(4, 64, 14, 14, dtype=dtype, last=True), meta(64, 1, 7, 7, dtype=dtype)

    assert chosen(tensor, weight, groups=64) == Backend.Cudnn


@pytest.mark.parametrize(
    ("dtype", "kernel", "backend"),
    [
        (torch.float32, 3, Backend.CudaDepthwise2d),
        (torch.bfloat16, 3, Backend.CudaDepthwise2d),
        (torch.float16, 3, Backend.Cudnn),
        (torch.float16, 7, Backend.CudaDepthwise2d),
    ],
)
def test_in_nchw_only_small_depthwise_kernels_in_fp16_run_on_cudnn(dtype, kernel, backend):
    tensor, weight = meta(4, 64, 14, 14, dtype=dtype), meta(64, 1, kernel, kernel, dtype=dtype)

    assert chosen(tensor, weight, groups=64) == backend


def test_depthwise_volumes_run_on_pytorchs_own_kernel():
    """Recorded (HugePandaCoder/octree-nca-groupeq, my_snapshot.pickle): conv_depthwise3d_cuda."""
    assert chosen(meta(1, 16, 8, 8, 8), meta(16, 1, 3, 3, 3), groups=16) == Backend.CudaDepthwise3d


def test_an_empty_batch_runs_on_no_kernel():
    assert chosen(meta(0, 8, 14, 14), meta(16, 8, 3, 3)) == Backend.Empty


@pytest.mark.parametrize(("of_input", "of_weight"), [(True, False), (False, True), (True, True)])
def test_cudnn_works_in_channels_last_if_either_operand_lies_so(of_input, of_weight):
    operands = meta(4, 8, 14, 14, last=of_input), meta(16, 8, 3, 3, last=of_weight)

    assert backend_layout(*operands, Backend.Cudnn) is CHANNELS_LAST
    assert backend_layout(*operands, Backend.Slow2d) is torch.contiguous_format


def test_fp64_is_never_in_channels_last():
    operands = meta(4, 8, 14, 14, dtype=torch.float64, last=True), meta(16, 8, 3, 3, dtype=torch.float64)

    assert backend_layout(*operands, Backend.Cudnn) is torch.contiguous_format


# --- how results lie, in every build


def strides_of_a_channels_last_layer(depthwise, dtype):
    groups = 64 if depthwise else 1
    layer = torch.nn.Conv2d(64, 64, 3, padding=1, groups=groups, bias=False, device="cuda")
    layer = layer.to(dtype=getattr(torch, dtype), memory_format=torch.channels_last)
    images = torch.randn(4, 64, 14, 14, device="cuda", dtype=getattr(torch, dtype))
    images = images.to(memory_format=torch.channels_last).requires_grad_()
    output = layer(images)
    gradients = torch.autograd.grad(output, (images, layer.weight), torch.ones_like(output))
    return [list(tensor.stride()) for tensor in (output, *gradients)]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("depthwise", [False, True])
def test_a_channels_last_network_stays_channels_last(trace, depthwise, dtype):
    images = [14 * 14 * 64, 1, 14 * 64, 64]
    weights = [9, 1, 3, 1] if depthwise else [9 * 64, 1, 3 * 64, 64]

    assert trace(strides_of_a_channels_last_layer, depthwise, dtype).value == [images, images, weights]


def strides_of_a_channels_last_volume():
    volume = torch.randn(2, 8, 6, 6, 6, device="cuda").to(memory_format=torch.channels_last_3d)
    weight = torch.randn(16, 8, 3, 3, 3, device="cuda")
    return list(torch.nn.functional.conv3d(volume, weight).stride())


def test_a_channels_last_volume_stays_channels_last(trace):
    assert trace(strides_of_a_channels_last_volume).value == [4 * 4 * 4 * 16, 1, 4 * 4 * 16, 4 * 16, 16]


# --- temporaries


def test_operands_that_lie_as_cudnn_wants_them_are_not_copied(workspaces):
    assert not any(forward(meta(4, 8, 14, 14), meta(16, 8, 3, 3)))
    assert not any(forward(meta(4, 8, 14, 14, last=True), meta(16, 8, 3, 3, last=True)))


def test_an_nchw_input_is_copied_for_channels_last_weights(workspaces):
    sizes = forward(meta(4, 8, 14, 14), meta(16, 8, 3, 3, last=True))

    assert [size for size in sizes if size] == [4 * 4 * 8 * 14 * 14]


def test_nchw_weights_are_copied_for_a_channels_last_input(workspaces):
    sizes = forward(meta(4, 8, 14, 14, last=True), meta(16, 8, 3, 3))

    assert [size for size in sizes if size] == [4 * 16 * 8 * 3 * 3]


def test_a_workspace_is_held_with_the_copies(workspaces):
    workspaces[Direction.FORWARD] = 12345

    sizes = forward(meta(4, 8, 14, 14, last=True), meta(16, 8, 3, 3))

    assert [size for size in sizes if size] == [4 * 16 * 8 * 3 * 3, 12345]


def test_a_sequence_is_made_contiguous_and_convolved_as_an_image(workspaces):
    sequence = meta(4, 100, 8).transpose(1, 2)

    sizes = forward(sequence, meta(16, 8, 3), [1], [1], [1], False, [0], 1)

    assert [size for size in sizes if size] == [4 * 4 * 8 * 100]
    (asked,) = workspaces["asked"]
    assert (asked.x, asked.w, asked.y) == ((4, 8, 1, 100), (16, 8, 1, 3), (4, 16, 1, 100))
    assert (asked.padding, asked.stride, asked.dilation) == ((0, 1), (1, 1), (1, 1))


def test_the_gradients_peak_where_most_is_held(workspaces):
    """First the input's, with nothing of the weight's gradient there yet; then the weight's."""
    tensor, weight = meta(4, 8, 14, 14), meta(16, 8, 3, 3)
    gradient, of_weight = meta(4, 16, 14, 14), 4 * 16 * 8 * 3 * 3

    workspaces.update({Direction.INPUT_GRADIENT: 10_000, Direction.WEIGHT_GRADIENT: 5_000})
    assert backward(gradient, tensor, weight) == [10_000 - of_weight, 0, 0, 0]

    workspaces.update({Direction.INPUT_GRADIENT: 10_000, Direction.WEIGHT_GRADIENT: 9_000})
    assert [size for size in backward(gradient, tensor, weight) if size] == [9_000]


def test_an_expanded_gradient_is_copied(workspaces):
    tensor, weight = meta(4, 8, 14, 14), meta(16, 8, 3, 3)

    sizes = backward(meta(1).expand(4, 16, 14, 14), tensor, weight, mask=(False, True, False))

    assert [size for size in sizes if size] == [4 * 4 * 16 * 14 * 14]


def test_a_transposed_convolution_is_planned_as_the_gradient_of_one(workspaces):
    forward(meta(4, 16, 7, 7), meta(16, 8, 2, 2), [2, 2], [0, 0], [1, 1], True, [0, 0], 1)

    (asked,) = workspaces["asked"]
    assert asked.direction is Direction.INPUT_GRADIENT
    assert (asked.x, asked.w, asked.y) == ((4, 8, 14, 14), (16, 8, 2, 2), (4, 16, 7, 7))


def test_pytorchs_own_kernel_unfolds_one_image_into_columns():
    """Recorded nowhere; ConvolutionMM2d.cu: 8 x 3 x 3 numbers for each of 14 x 14 places."""
    operands = meta(4, 8, 14, 14, dtype=torch.bfloat16), meta(16, 8, 3, 3, dtype=torch.bfloat16)

    assert [size for size in forward(*operands, gpu=T4) if size] == [2 * 8 * 9 * 14 * 14]


@pytest.mark.parametrize(
    ("tensor", "weight", "padding", "recorded_gib"),
    [
        # pytorch/pytorch#95024: "Tried to allocate 108.21 GiB" for one convolution of a volume in fp16
        ((1, 64, 362, 370, 251), (32, 64, 3, 3, 3), 1, 108.21),
        # pytorch/pytorch#128947: "Tried to allocate 161.37 GiB", in fp32
        ((1, 256, 5, 1090, 1922), (64, 256, 3, 3, 3), 0, 161.37),
    ],
)
def test_pytorchs_own_kernel_unfolds_a_volume_into_recorded_columns(tensor, weight, padding, recorded_gib):
    dtype = torch.float16 if padding else torch.float32
    options = [1] * 3, [padding] * 3, [1] * 3, False, [0] * 3, 1
    with torch.backends.cudnn.flags(enabled=False):  # cuDNN before 9.3 was not asked for so large ones
        (columns,) = forward(meta(*tensor, dtype=dtype), meta(*weight, dtype=dtype), *options)[2:]

    assert round(columns / 2**30, 2) == recorded_gib


def test_without_a_cudnn_to_ask_four_times_the_operands_bound_the_workspace(workspaces):
    args = (meta(4, 8, 14, 14), meta(16, 8, 3, 3), None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    bound = CONVOLUTION_BOUNDS[aten.convolution.default]
    result = aten.convolution.default(*args)

    assert bound(args, {}, result, A100) == [4 * 4 * (4 * 8 * 14 * 14 + 16 * 8 * 9 + 4 * 16 * 14 * 14)]

    workspaces[Direction.FORWARD] = 0
    assert bound(args, {}, result, A100) == []


# --- cuDNN's own plans


RECORDED = [
    # JasperSolt/EoR_NN@6686e9f snapshot.pickle: 3 x 3 convolutions in fp32 of one image (torch 2.3)
    (Direction.FORWARD, 30, 16, 256, 82_880),
    (Direction.FORWARD, 16, 32, 128, 51_328),
    (Direction.FORWARD, 32, 64, 64, 205_056),
    (Direction.INPUT_GRADIENT, 32, 64, 64, 204_928),
    (Direction.INPUT_GRADIENT, 16, 32, 128, 84_032),
    (Direction.INPUT_GRADIENT, 30, 16, 256, 50_168),
]


@pytest.mark.skipif(find_cudnn() is None, reason="no cuDNN from 9.8 on beside this torch: nothing to ask")
@pytest.mark.parametrize(("direction", "channels", "width", "size", "recorded"), RECORDED)
def test_cudnn_plans_the_recorded_workspaces_without_a_gpu(direction, channels, width, size, recorded):
    convolution = Convolution(
        direction,
        x=(1, channels, size, size),
        w=(width, channels, 3, 3),
        y=(1, width, size, size),
        padding=(1, 1),
        stride=(1, 1),
        dilation=(1, 1),
        dtype="float32",
        channels_last=False,
    )

    assert workspace_bytes(convolution, A100) == recorded


# --- pooling and resizing


def test_a_resized_volume_in_channels_last_is_made_twice():
    """Recorded (HugePandaCoder/octree-nca-groupeq, my_snapshot.pickle): 943,718,400 bytes, twice."""
    volume = torch.empty(1, 16, 4, 4, 4, device="meta").to(memory_format=torch.channels_last_3d)
    output = torch.empty(1, 16, 8, 8, 8, device="meta").to(memory_format=torch.channels_last_3d)
    rule = POOLING_RULES[aten.upsample_nearest3d.default]

    assert rule((volume, [8, 8, 8]), {}, output, A100) == [4 * 16 * 4**3, 4 * 16 * 8**3]


def test_a_resized_image_in_channels_last_is_not_copied():
    rule = POOLING_RULES[aten.upsample_nearest2d.default]

    assert rule((meta(2, 8, 4, 4, last=True), [8, 8]), {}, meta(2, 8, 8, 8, last=True), A100) == [0]


def test_pooling_copies_rows_taken_out_of_an_image():
    rule = POOLING_RULES[aten.max_pool2d_with_indices.default]

    assert rule((meta(2, 8, 16, 8)[:, :, ::2], [2, 2]), {}, None, A100) == [4 * 2 * 8 * 8 * 8]
