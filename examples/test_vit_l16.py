"""Where the optimizer steps decides the peak: ViT-L/16, one image, fp32, Adam.

304,326,632 parameters in fp32 are 1.22 GB = 1.13 GiB. PyTorch's tutorial "How to save memory by fusing the
optimizer step into the backward pass" reports about 6 GB for the ordinary step (parameters, gradients, two
moments and Adam's temporaries: five times the parameters) and about 4 GB for the step in backward. Budgets
are in GiB: 6 GB are 5.59 GiB, 4 GB are 3.73 GiB.
"""

import pytest
import torch
import torch.nn.functional as F
from models.vit import VisionTransformer, ViTConfig

from pytest_membudget.steps import optimizer_in_backward


def test_the_model_is_vit_l_16():
    with torch.device("meta"):
        model = VisionTransformer(ViTConfig())

    # pytorch/vision, torchvision/models/vision_transformer.py at 07a929e: ViT_L_16_Weights, "num_params"
    assert sum(parameter.numel() for parameter in model.parameters()) == 304_326_632


def one_image():
    return torch.rand(1, 3, 224, 224, device="cuda"), torch.zeros(1, dtype=torch.long, device="cuda")


@pytest.mark.mem_budget(gib=6)
def test_step_after_backward():
    model = VisionTransformer(ViTConfig()).cuda()
    optimizer = torch.optim.Adam(model.parameters())

    for _ in range(3):
        image, label = one_image()
        F.cross_entropy(model(image), label).backward()
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.mem_budget(gib=4)
def test_step_in_backward():
    model = VisionTransformer(ViTConfig()).cuda()
    optimizer_in_backward(model, torch.optim.Adam)

    for _ in range(3):
        image, label = one_image()
        F.cross_entropy(model(image), label).backward()  # each gradient is applied and freed on the way
