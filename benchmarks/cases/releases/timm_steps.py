"""Small steps of timm 0.5 to 1; a model that a release does not have is skipped."""

import pytest
import timm
import timm.optim
import timm.utils
import torch

pytestmark = pytest.mark.mem_budget(gib=70)

TRAINED = [
    "resnet50",
    "efficientnet_b0",
    "mobilenetv3_large_100",
    "convnext_tiny",
    "vit_small_patch16_224",
    "deit3_small_patch16_224",
    "beit_base_patch16_224",
    "cait_xxs24_224",
    "swin_tiny_patch4_window7_224",
    "mixer_s16_224",
    "eva02_tiny_patch14_224",
    "davit_tiny",
    "levit_192",
]
WITH_CHECKPOINTS = ["vit_small_patch16_224", "swin_tiny_patch4_window7_224"]
IN_INFERENCE = ["efficientnet_b0", "vit_small_patch16_224"]


def made(name, **options):
    try:
        return timm.create_model(name, pretrained=False, **options).cuda()
    except RuntimeError as error:
        if "Unknown model" not in str(error):
            raise
        pytest.skip(f"timm {timm.__version__} has no {name}")


def images(model, batch=8):
    return torch.randn(batch, *model.default_cfg["input_size"], device="cuda")


def train(model):
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    labels = torch.zeros(8, dtype=torch.long, device="cuda")
    for _ in range(2):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(images(model))
            loss = torch.nn.functional.cross_entropy(logits, labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize("name", TRAINED)
def test_training(name):
    train(made(name))


@pytest.mark.parametrize("name", WITH_CHECKPOINTS)
def test_training_with_checkpoints(name):
    model = made(name)
    model.set_grad_checkpointing()
    train(model)


@pytest.mark.parametrize("name", IN_INFERENCE)
def test_inference(name):
    model = made(name).eval()
    with torch.inference_mode():
        model(images(model, 32))


def test_optimizer():
    model = made("resnet50").train()
    optimizer = timm.optim.create_optimizer_v2(model, opt="adamw", lr=1e-3, weight_decay=0.05)
    timm.utils.ModelEmaV2(model)
    for _ in range(2):
        model(images(model)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
