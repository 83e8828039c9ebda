"""Models and loops of libraries, from their own code: vision, speech, graphs, generation, trainers."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .training import TYPES, language_loss, on_cuda, tokens, trained


def timm_model(
    name: str, batch: int, size: int = 224, autocast: str = "", channels_last: bool = False
) -> None:
    """Images to classes by a model of timm."""
    import timm

    with on_cuda():
        model = timm.create_model(name, num_classes=100)
        images, labels = torch.randn(batch, 3, size, size), torch.randint(0, 100, (batch,))
    if channels_last:
        model, images = (
            model.to(memory_format=torch.channels_last),
            images.to(memory_format=torch.channels_last),
        )
    trained(model, lambda: F.cross_entropy(model(images), labels), autocast=_type(autocast))


def torchvision_segmentation(batch: int, size: int) -> None:
    """DeepLabV3 on a ResNet-50, of torchvision, with its auxiliary loss."""
    from torchvision.models.segmentation import deeplabv3_resnet50

    with on_cuda():
        model = deeplabv3_resnet50(weights=None, weights_backbone=None, num_classes=21, aux_loss=True)
        images, labels = torch.randn(batch, 3, size, size), torch.randint(0, 21, (batch, size, size))

    def loss() -> Tensor:
        found: Mapping[str, Tensor] = model(images)
        return F.cross_entropy(found["out"], labels) + 0.5 * F.cross_entropy(found["aux"], labels)

    trained(model, loss, autocast=torch.bfloat16)


def torchvision_video(batch: int, frames: int) -> None:
    """Video clips to classes by torchvision's Swin3D-T."""
    from torchvision.models.video import swin3d_t

    with on_cuda():
        model = swin3d_t(weights=None)
        clips, labels = torch.randn(batch, 3, frames, 224, 224), torch.randint(0, 400, (batch,))
    trained(model, lambda: F.cross_entropy(model(clips), labels), autocast=torch.bfloat16)


def torchvision_detection(batch: int, size: int) -> None:
    """RetinaNet on a ResNet-50 with a pyramid, of torchvision: losses over matched anchors."""
    from torchvision.models.detection import retinanet_resnet50_fpn

    with on_cuda():
        model = retinanet_resnet50_fpn(weights=None, weights_backbone=None, num_classes=91)
        images = list(torch.rand(batch, 3, size, size).unbind())
        boxes = torch.tensor([[10.0, 10.0, 200.0, 200.0], [50.0, 60.0, 90.0, 300.0]])
        targets = [{"boxes": boxes, "labels": torch.tensor([1, 7])} for _ in images]

    def loss() -> Tensor:
        found: Mapping[str, Tensor] = model(images, targets)
        return torch.stack(list(found.values())).sum()

    trained(model, loss)


def torchaudio_conformer(batch: int, length: int) -> None:
    """torchaudio's Conformer over filter banks, with the connectionist loss."""
    from torchaudio.models import Conformer

    with on_cuda():
        model, head = Conformer(80, 4, 256, 6, 31), nn.Linear(80, 100)
        sound, lengths = torch.randn(batch, length, 80), torch.full((batch,), length)
        labels, counts = torch.randint(1, 100, (batch, 50)), torch.full((batch,), 50)

    def loss() -> Tensor:
        scores = head(model(sound, lengths)[0]).log_softmax(-1).transpose(0, 1)
        return F.ctc_loss(scores, labels, lengths, counts)

    trained(nn.ModuleList([model, head]), loss)


def transformers_model(
    model: str,
    config: str,
    options: Mapping[str, Any],
    batch: int,
    length: int,
    vocabulary: int,
    autocast: str = "",
) -> None:
    """A model of transformers, by class, that has ids and labels; AdamW."""
    import transformers

    with on_cuda(torch.float32 if autocast else torch.bfloat16):
        made = getattr(transformers, model)(getattr(transformers, config)(**options))
    ids = tokens(batch, length, vocabulary)
    trained(made, language_loss(made, {"input_ids": ids, "labels": ids}), autocast=_type(autocast))


def transformers_vision(model: str, config: str, options: Mapping[str, Any], batch: int, size: int) -> None:
    """A classifier of images of transformers, under bfloat16 autocast."""
    import transformers

    with on_cuda():
        made = getattr(transformers, model)(getattr(transformers, config)(**options))
        inputs = {
            "pixel_values": torch.randn(batch, 3, size, size),
            "labels": torch.zeros(batch, dtype=torch.long),
        }
    trained(made, language_loss(made, inputs), autocast=torch.bfloat16)


def clip(batch: int) -> None:
    """CLIP's two towers and its contrastive loss."""
    from transformers import CLIPConfig, CLIPModel

    with on_cuda():
        model = CLIPModel(CLIPConfig())
        images = torch.randn(batch, 3, 224, 224)
    ids = tokens(batch, 77, 49_000)
    trained(model, language_loss(model, {"input_ids": ids, "pixel_values": images, "return_loss": True}),
            autocast=torch.bfloat16)  # fmt: skip


def wav2vec(batch: int, samples: int) -> None:
    """wav2vec 2.0 over waves, with the connectionist loss."""
    from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

    with on_cuda():
        model = Wav2Vec2ForCTC(Wav2Vec2Config(mask_time_prob=0.0, layerdrop=0.0, ctc_loss_reduction="mean"))
        waves = torch.randn(batch, samples)
    inputs = {"input_values": waves, "labels": tokens(batch, 30, 31) + 1}
    trained(model, language_loss(model, inputs), autocast=torch.bfloat16)


def generated(size: str, batch: int, length: int, **options: Any) -> None:
    """``generate()`` of transformers on a Llama in bfloat16."""
    from .language_models import llama_model

    model: Any = llama_model(size, torch.bfloat16, use_cache=True).eval()
    model.generate(tokens(batch, length, 32_000), eos_token_id=None, pad_token_id=0, **options)


def peft_adapters(length: int, quantity: int) -> None:
    """peft's LoRA on all linear layers of a Llama 1B, with checkpoints."""
    from peft import LoraConfig, get_peft_model

    from .language_models import llama_model

    base: Any = llama_model("1b", torch.bfloat16)
    base.gradient_checkpointing_enable()
    base.enable_input_require_grads()
    model = get_peft_model(base, LoraConfig(r=quantity, target_modules="all-linear", lora_dropout=0.05))
    ids = tokens(2, length, 128_256)
    trained(model, language_loss(model, {"input_ids": ids, "labels": ids}))


class _Rows(torch.utils.data.Dataset[dict[str, Tensor]]):
    """Token ids and labels of one length, on the host."""

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        ids = torch.arange(512) + index
        return {"input_ids": ids, "labels": ids}


def transformers_trainer(**options: Any) -> None:
    """transformers' Trainer: two updates and an evaluation, as its arguments say."""
    from transformers import Trainer, TrainingArguments

    from .language_models import llama_model

    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, max_steps=2, per_device_train_batch_size=4, report_to="none", save_strategy="no",
            logging_steps=1, disable_tqdm=True, **options,
        )  # fmt: skip
        trainer = Trainer(
            llama_model("160m", torch.float32), arguments, train_dataset=_Rows(), eval_dataset=_Rows()
        )
        trainer.train()
        trainer.evaluate()


def lightning_trainer(precision: str) -> None:
    """Lightning's Trainer on a classifier of vectors, with clipped gradients."""
    import pytorch_lightning as lightning

    class Classifier(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(
                nn.Linear(1000, 4000), nn.ReLU(), nn.Linear(4000, 4000), nn.ReLU(), nn.Linear(4000, 10)
            )

        def training_step(self, batch: Any, _index: int) -> Tensor:
            return F.cross_entropy(self.layers(batch[0]), batch[1])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters())

    rows = torch.utils.data.TensorDataset(torch.randn(2048, 1000), torch.randint(0, 10, (2048,)))
    trainer = lightning.Trainer(max_steps=3, precision=precision, gradient_clip_val=1.0, logger=False,
                                enable_checkpointing=False, enable_progress_bar=False)  # fmt: skip
    trainer.fit(Classifier(), torch.utils.data.DataLoader(rows, batch_size=512))


def graph_network(kind: str, nodes: int, edges: int) -> None:
    """Two layers of PyTorch Geometric over a random graph."""
    from torch_geometric import nn as layers

    make: Callable[[int, int], nn.Module] = getattr(layers, kind)
    with on_cuda():
        first, second, x = make(128, 256), make(256, 64), torch.randn(nodes, 128)
        index, labels = torch.randint(0, nodes, (2, edges)), torch.randint(0, 64, (nodes,))
    model = nn.ModuleList([first, second])
    trained(model, lambda: F.cross_entropy(second(first(x, index).relu(), index), labels))


def differential_equation(rows: int) -> None:
    """torchdiffeq's Runge-Kutta of fixed steps, with its adjoint."""
    from torchdiffeq import odeint_adjoint

    class Field(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 64))

        def forward(self, _time: Tensor, y: Tensor) -> Tensor:
            out: Tensor = self.layers(y)
            return out

    with on_cuda():
        model, start, times = Field(), torch.randn(rows, 64), torch.linspace(0, 1, 9)
    trained(model, lambda: odeint_adjoint(model, start, times, method="rk4")[-1].square().mean())


def _type(name: str) -> torch.dtype | None:
    return TYPES[name] if name else None
