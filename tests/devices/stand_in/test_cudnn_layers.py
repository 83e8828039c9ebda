"""Batch norm, CTC loss, sampling and attention of cuDNN on the stand-in."""

import torch
from allocations import requests, without
from cudnn_questions import needs_cudnn

F = torch.nn.functional
FP32 = 4

pytestmark = needs_cudnn

SHAPE = (16, 64, 56, 56)
IMAGES = 16 * 64 * 56 * 56 * FP32
CHANNELS = 64 * FP32


def batch_norm(train, channels_last):
    """What forward and backward ask for, and the node that backward runs."""
    layer = torch.nn.BatchNorm2d(SHAPE[1]).cuda().train(train)
    tensor = torch.empty(SHAPE, device="cuda")
    if channels_last:
        tensor = tensor.to(memory_format=torch.channels_last)
    tensor.requires_grad_()
    results = []
    forward = requests(lambda: results.append(layer(tensor)))
    gradient = torch.empty_like(results[0])
    backward = requests(lambda: torch.autograd.grad(results, [tensor, *layer.parameters()], gradient))
    return forward, backward, results[0].grad_fn.name()


def test_batch_norm_takes_its_output_and_in_training_two_statistics(stand_in):
    """As recorded (JasperSolt/EoR_NN, snapshot.pickle).

    In channels last there is a workspace: one persistent kernel, whose blocks exchange at least two sums
    a channel, in fp32.
    """
    trained, evaluated, last = (
        stand_in(batch_norm, *how) for how in ((True, False), (False, False), (True, True))
    )

    assert {name for *_, name in (trained, evaluated, last)} == {"CudnnBatchNormBackward0"}
    assert [sorted(sizes) for sizes in trained[:2]] == 2 * [[CHANNELS, CHANNELS, IMAGES]]
    assert evaluated[0] == [IMAGES]
    for sizes in last[:2]:
        (workspace,) = without(sizes, CHANNELS, CHANNELS, IMAGES)
        assert 2 * CHANNELS <= workspace < IMAGES


STEPS, BATCH, CLASSES, LABELS = 50, 8, 20, 10


def ctc_loss():
    """The loss of lengths in a list, and of lengths in tensors."""
    scores = torch.empty(STEPS, BATCH, CLASSES, device="cuda", requires_grad=True)
    labels = torch.ones(BATCH * LABELS, dtype=torch.int)
    listed = requests(lambda: torch.ctc_loss(scores, labels, (STEPS,) * BATCH, (LABELS,) * BATCH))
    lengths = [torch.tensor([size] * BATCH, dtype=torch.int).cuda() for size in (STEPS, LABELS)]
    labels = labels.cuda()
    loss = torch.ctc_loss(scores, labels, *lengths).sum()
    loss.backward()
    return listed, list(scores.grad.shape)


def test_ctc_loss_keeps_probabilities_and_both_directions_sums(stand_in):
    """Its workspace: the probabilities, and for both directions the labels of each step, with blanks."""
    listed, gradient = stand_in(ctc_loss)

    (workspace,) = without(listed, STEPS * BATCH * CLASSES * FP32, BATCH * FP32)
    parts = STEPS * BATCH * (CLASSES + 2 * (2 * LABELS + 1)) * FP32
    assert parts <= workspace < parts + 4096
    assert gradient == [STEPS, BATCH, CLASSES]


def sampled():
    tensor = torch.empty(SHAPE, device="cuda", requires_grad=True)
    grid = torch.empty(SHAPE[0], 28, 28, 2, device="cuda", requires_grad=True)
    results = []
    forward = requests(lambda: results.append(F.grid_sample(tensor, grid, align_corners=True)))
    results[0].sum().backward()
    return forward, results[0].grad_fn.name()


def test_the_spatial_transformers_sampler_takes_its_output(stand_in):
    forward, name = stand_in(sampled)

    assert name == "CudnnGridSamplerBackward0"
    assert forward == [16 * 64 * 28 * 28 * FP32]


HEADS, TOKENS, WIDTH = 32, 2048, 128


def attention():
    operands = [
        torch.empty(1, HEADS, TOKENS, WIDTH, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        for _ in range(3)
    ]
    results = []
    forward = requests(lambda: results.append(F.scaled_dot_product_attention(*operands)))
    gradient = torch.empty_like(results[0])
    backward = requests(lambda: torch.autograd.grad(results, operands, gradient))
    return results[0].grad_fn.name(), forward, backward


OPERAND = HEADS * TOKENS * WIDTH * 2
LOGSUMEXP = HEADS * TOKENS * FP32


def test_a_hopper_takes_cudnns_attention_with_its_workspaces(stand_in):
    """Read off plans that cuDNN 9.19 to 9.26 made without the stand-in: a tile scheduler of 256 bytes.

    Backward also has the rows' sums and the query's gradient in fp32 (cudnn-frontend's node
    scaled_dot_product_flash_attention.h).
    """
    tiles, rows = 256, HEADS * TOKENS

    name, forward, backward = stand_in(attention, gpu="H100-80GB")

    assert name == "ScaledDotProductCudnnAttentionBackward0"
    seed_and_offset = 8, 8
    assert without(forward, OPERAND, LOGSUMEXP, *seed_and_offset) == [tiles]
    assert without(backward, OPERAND, OPERAND, OPERAND) == [tiles + FP32 * rows * (WIDTH + 1)]


def test_an_ampere_takes_flash_attention(stand_in):
    name, *_ = stand_in(attention)

    assert name == "ScaledDotProductFlashAttentionBackward0"
