"""Bodies for the virtual device: steps of transformers' models built from configurations."""

import contextlib

import torch


def build(order):
    """The model of ``order``: its class by name, on the device, in its type."""
    import transformers

    config = getattr(transformers, order["config_class"])(**order["config"])
    torch.set_default_dtype(getattr(torch, order.get("dtype", "bfloat16")))
    with torch.device("cuda"):
        model = getattr(transformers, order["model_class"])(config)
    torch.set_default_dtype(torch.float32)
    model.train()
    if order.get("checkpointing"):
        model.gradient_checkpointing_enable()
    return model


def batch_of(order, model):
    """Tokens with themselves as labels, or images with classes."""
    rows, length = order.get("rows", 2), order.get("length", 512)
    if "image_size" in order["config"]:
        size = order["config"]["image_size"]
        dtype = getattr(torch, order.get("dtype", "bfloat16"))
        return {
            "pixel_values": torch.randn(rows, 3, size, size, device="cuda", dtype=dtype),
            "labels": torch.randint(0, 2, (rows,), device="cuda"),
        }
    tokens = torch.randint(0, 1000, (rows, length), device="cuda")
    return {"input_ids": tokens, "labels": tokens} | order.get("inputs", {})


def in_backward(model):
    optimizers = {p: torch.optim.AdamW([p]) for p in model.parameters() if p.requires_grad}

    def step(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in optimizers:
        parameter.register_post_accumulate_grad_hook(step)


def training(order):
    """``steps`` steps of training; ``until`` says what the last thing is that runs."""
    model = build(order)
    optimizer = None
    until = order.get("until", "step")
    if order.get("in_backward"):
        in_backward(model)
    elif until == "step":
        options = order.get("optimizer", {})
        optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], **options)
    batch = batch_of(order, model)
    autocast = torch.autocast("cuda", torch.bfloat16) if order.get("autocast") else contextlib.nullcontext()
    for _ in range(order.get("steps", 2)):
        with autocast:
            loss = model(**batch).loss
        if until == "forward":
            break
        loss.backward()
        if optimizer is not None:
            optimizer.step()
            optimizer.zero_grad()
    return sum(parameter.numel() for parameter in model.parameters())
