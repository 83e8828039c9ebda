"""torchvision and timm: classification, detection, segmentation, augmentation; weights from configs."""

import pytest
import torch
import torchvision
from timm import create_model
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from timm.utils import ModelEmaV3
from torch.nn import functional as F
from torchvision.models.detection import fasterrcnn_resnet50_fpn
from torchvision.models.segmentation import deeplabv3_resnet50
from torchvision.transforms import v2

import pytest_membudget

NO_WEIGHTS = {"weights": None, "weights_backbone": None}


@pytest.mark.mem_budget(gib=4)
@pytest.mark.parametrize(
    "memory_format", [torch.contiguous_format, torch.channels_last], ids=["nchw", "nhwc"]
)
def test_resnet50(memory_format):
    model = torchvision.models.resnet50().to("cuda", memory_format=memory_format)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler("cuda")
    for _ in range(2):
        images = torch.randn(64, 3, 224, 224, device="cuda").to(memory_format=memory_format)
        labels = torch.randint(0, 1000, (64,), device="cuda")
        with torch.autocast("cuda", torch.float16):
            loss = F.cross_entropy(model(images), labels, label_smoothing=0.1)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


@pytest.mark.mem_budget(gib=6)
def test_detector_learns():
    model = fasterrcnn_resnet50_fpn(**NO_WEIGHTS).cuda()
    images = [torch.rand(3, 480, 640, device="cuda") for _ in range(2)]
    boxes = torch.tensor([[10.0, 10.0, 100.0, 100.0], [50.0, 60.0, 200.0, 220.0]], device="cuda")
    targets = [{"boxes": boxes, "labels": torch.tensor([1, 2], device="cuda")} for _ in images]
    sum(model(images, targets).values()).backward()


@pytest.mark.mem_budget(gib=1)
def test_detector_looks():
    model = fasterrcnn_resnet50_fpn(**NO_WEIGHTS).cuda().eval()
    # of boxes and classes a hundredth; each class is looked at by itself, so the number of classes is told
    with torch.no_grad(), pytest_membudget.assume(true_fraction=0.01, distinct_fraction=0.1):
        model([torch.rand(3, 480, 640, device="cuda")])


@pytest.mark.mem_budget(gib=2)
def test_segmentation():
    model = deeplabv3_resnet50(**NO_WEIGHTS).cuda()
    scores = model(torch.randn(2, 3, 256, 256, device="cuda"))["out"]
    F.cross_entropy(scores, torch.randint(0, 21, (2, 256, 256), device="cuda")).backward()


@pytest.mark.mem_budget(gib=0.25)
def test_augmentation_on_the_gpu():
    augment = v2.Compose(
        [
            v2.RandomResizedCrop(224, antialias=True),
            v2.RandomHorizontalFlip(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.5] * 3, [0.5] * 3),
        ]
    )
    augment(torch.randint(0, 255, (16, 3, 256, 256), dtype=torch.uint8, device="cuda"))


@pytest.mark.mem_budget(gib=2)
@pytest.mark.parametrize(
    "name", ["convnext_tiny", "efficientnet_b0", "swin_tiny_patch4_window7_224", "vit_small_patch16_224"]
)
def test_timm(name):
    model = create_model(name, pretrained=False).cuda()
    average = ModelEmaV3(model)
    optimizer = create_optimizer_v2(model, opt="adamw", lr=1e-3, weight_decay=0.05)
    mixup = Mixup(mixup_alpha=0.8, cutmix_alpha=1.0, num_classes=1000)
    for _ in range(2):
        images = torch.randn(16, 3, 224, 224, device="cuda")
        images, labels = mixup(images, torch.randint(0, 1000, (16,), device="cuda"))
        with torch.autocast("cuda", torch.bfloat16):
            loss = SoftTargetCrossEntropy()(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        average.update(model)
