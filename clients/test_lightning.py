"""Lightning's ``Trainer`` and ``Fabric``: mixed precision, accumulation, clipping, the step in backward."""

import itertools

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

L = pytest.importorskip("lightning")

WIDTH = 1024


def feed_forward():
    return nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))


def batches():
    return DataLoader(TensorDataset(torch.randn(64, WIDTH), torch.randn(64, WIDTH)), batch_size=16)


class Regression(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = feed_forward()

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = nn.functional.mse_loss(self.net(x), y)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.log("val_loss", nn.functional.mse_loss(self.net(x), y))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


class SteppingInBackward(Regression):
    """Manual optimization, with the hooks of PyTorch's tutorial on the step in backward."""

    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def configure_optimizers(self):
        optimizers = {
            parameter: torch.optim.AdamW([parameter], lr=1e-3, foreach=False)
            for parameter in self.parameters()
        }

        def step(parameter):
            optimizers[parameter].step()
            optimizers[parameter].zero_grad()

        for parameter in self.parameters():
            parameter.register_post_accumulate_grad_hook(step)

    def training_step(self, batch, batch_idx):
        self.manual_backward(super().training_step(batch, batch_idx))


def trainer(folder, **options):
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    return L.Trainer(max_epochs=1, default_root_dir=folder, **{**quiet, **options})


@pytest.mark.mem_budget(gib=0.3)
def test_trainer_in_bf16_mixed_with_accumulation(tmp_path):
    options = {"precision": "bf16-mixed", "accumulate_grad_batches": 2, "gradient_clip_val": 1.0}
    trainer(tmp_path, accelerator="gpu", devices=1, enable_checkpointing=False, **options).fit(
        Regression(), batches()
    )


@pytest.mark.mem_budget(gib=0.3)
def test_the_same_by_hand():
    model = feed_forward().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for number, batch in enumerate(batches()):
        x, y = (tensor.to("cuda") for tensor in batch)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = nn.functional.mse_loss(model(x), y)
        (loss / 2).backward()
        if number % 2:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()


@pytest.mark.mem_budget(gib=0.3)
def test_the_step_in_backward(tmp_path):
    trainer(tmp_path, enable_checkpointing=False).fit(SteppingInBackward(), batches())


@pytest.mark.mem_budget(gib=0.3)
def test_validated_and_saved(tmp_path):
    fitting = trainer(tmp_path, max_steps=2, log_every_n_steps=1)
    fitting.fit(Regression(), batches(), batches())
    fitting.validate(Regression(), batches(), ckpt_path="best", weights_only=False)


@pytest.mark.mem_budget(gib=0.3)
def test_fabric():
    fabric = L.Fabric(accelerator="cuda", devices=1, precision="bf16-mixed")
    fabric.launch()
    model = feed_forward()
    model, optimizer = fabric.setup(model, torch.optim.AdamW(model.parameters(), lr=1e-3))
    for x, y in itertools.islice(fabric.setup_dataloaders(batches()), 2):
        fabric.backward(nn.functional.mse_loss(model(x), y))
        fabric.clip_gradients(model, optimizer, max_norm=1.0)
        optimizer.step()
        optimizer.zero_grad()
