"""diffusers: steps of a denoiser and of a transformer, an autoencoder, a pipeline; small models."""

import pytest
import torch
import torch.nn.functional as F
from diffusers import (
    AutoencoderKL,
    DDIMPipeline,
    DDIMScheduler,
    DDPMScheduler,
    FluxTransformer2DModel,
    UNet2DConditionModel,
    UNet2DModel,
)


def unet():
    return UNet2DConditionModel(
        sample_size=32,
        block_out_channels=(64, 128, 256),
        down_block_types=("CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=256,
    )


@pytest.mark.mem_budget(gib=1)
@pytest.mark.parametrize("checkpointing", [False, True])
def test_denoising_step(checkpointing):
    model = unet().cuda()
    if checkpointing:
        model.enable_gradient_checkpointing()
    scheduler = DDPMScheduler(num_train_timesteps=1000)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        latents = torch.randn(8, 4, 32, 32, device="cuda")
        noise = torch.randn_like(latents)
        steps = torch.randint(0, 1000, (8,), device="cuda")
        text = torch.randn(8, 77, 256, device="cuda")
        with torch.autocast("cuda", torch.bfloat16):
            predicted = model(scheduler.add_noise(latents, noise, steps), steps, text).sample
        F.mse_loss(predicted.float(), noise).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.mem_budget(gib=0.5)
def test_flux_transformer():
    model = FluxTransformer2DModel(
        num_layers=2,
        num_single_layers=2,
        attention_head_dim=64,
        num_attention_heads=4,
        joint_attention_dim=256,
        pooled_projection_dim=128,
        axes_dims_rope=(16, 24, 24),
    ).to("cuda", torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)

    def given(*shape):
        return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)

    for _ in range(2):
        predicted = model(
            hidden_states=given(2, 256, 64),
            encoder_hidden_states=given(2, 64, 256),
            pooled_projections=given(2, 128),
            timestep=given(2),
            img_ids=given(256, 3),
            txt_ids=given(64, 3),
        ).sample
        predicted.float().square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.mem_budget(gib=0.5)
def test_autoencoder():
    model = AutoencoderKL(
        block_out_channels=(64, 128),
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
    ).cuda()
    with torch.no_grad():
        image = torch.randn(1, 3, 256, 256, device="cuda")
        model.decode(model.encode(image).latent_dist.sample())


@pytest.mark.mem_budget(gib=0.5)
def test_pipeline():
    model = UNet2DModel(
        sample_size=32,
        block_out_channels=(32, 64),
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )
    DDIMPipeline(model, DDIMScheduler()).to("cuda")(batch_size=2, num_inference_steps=3)
