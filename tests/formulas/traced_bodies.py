"""Bodies for the stand-in: steps of transformers' models built from configurations.

Loaded by the server of the ``trace`` fixture: what is imported here its children need not import again.
"""

import contextlib
import sys

import torch
from traced_models import MODELS

with contextlib.suppress(ImportError):  # the tests skip then
    import transformers

    if sys.argv[0].endswith("devices/server.py"):
        for known in MODELS.values():
            getattr(transformers, known["model_class"])


def build(order):
    """The model of ``order``: its class by name, on the device, in its type."""
    config = getattr(transformers, order["config_class"])(**order["config"])
    if "attention" in order:
        config._attn_implementation = order["attention"]
    torch.set_default_dtype(getattr(torch, order.get("dtype", "bfloat16")))
    # made on the host and moved, a tied head leaves no place behind that its own weight had
    with torch.device("cpu" if order.get("moved") else "cuda"):
        model = getattr(transformers, order["model_class"])(config).cuda()
    torch.set_default_dtype(torch.float32)
    model.train()
    if order.get("checkpointing"):
        model.gradient_checkpointing_enable()
    return model


def batch_of(order, model):
    """Tokens with themselves as labels, or images with classes."""
    rows, length = order.get("rows", 2), order.get("length", 512)
    if order["model_type"] == "vit":
        size = 224
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


class Adapted(torch.nn.Module):
    """A linear layer with a low-rank adapter, as peft runs it."""

    def __init__(self, base, rank, dropout, dtype):
        super().__init__()
        self.base = base.requires_grad_(False)
        options = {"bias": False, "device": "cuda", "dtype": dtype}
        self.lora_A = torch.nn.Linear(base.in_features, rank, **options)
        self.lora_B = torch.nn.Linear(rank, base.out_features, **options)
        self.dropout = torch.nn.Dropout(dropout) if dropout else torch.nn.Identity()

    def forward(self, x):
        result = self.base(x)
        kind = result.dtype
        x = x.to(self.lora_A.weight.dtype)
        result = result + self.lora_B(self.lora_A(self.dropout(x))) * 2.0
        return result.to(kind)


def adapted_training(order):
    """LoRA: the model frozen, with adapters on the linear layers that end as ``order`` says."""
    model = build(order).requires_grad_(False)
    dtype = getattr(torch, order.get("adapter_dtype", "float32"))
    for path, module in list(model.named_modules()):
        if isinstance(module, torch.nn.Linear) and path.split(".")[-1] in order["targets"]:
            parent = model.get_submodule(path.rpartition(".")[0])
            adapter = Adapted(module, order["rank"], order.get("adapter_dropout", 0.0), dtype)
            setattr(parent, path.rpartition(".")[2], adapter)
    model.train()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])
    batch = batch_of(order, model)
    autocast = torch.autocast("cuda", torch.bfloat16) if order.get("autocast") else contextlib.nullcontext()
    for _ in range(order.get("steps", 2)):
        with autocast:
            loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def chunked_training(order):
    """torchtune's chunked cross entropy: the head chunk by chunk, then each chunk's loss in fp32."""
    model = build(order)
    optimizer = torch.optim.AdamW(model.parameters())
    tokens = batch_of(order, model)["input_ids"]
    for _ in range(2):
        hidden = model.model(input_ids=tokens).last_hidden_state
        logits = [model.lm_head(chunk) for chunk in hidden.chunk(order["chunks"], dim=1)]
        del hidden
        labels = [chunk.reshape(-1) for chunk in tokens.chunk(order["chunks"], dim=1)]
        total = 0.0
        for part, target in zip(logits, labels, strict=True):
            rows = part.reshape(-1, part.size(-1))
            total = total + torch.nn.functional.cross_entropy(rows.float(), target, reduction="sum")
        del logits, part, rows
        total.backward()
        optimizer.step()
        optimizer.zero_grad()


def distillation(order):
    """torchtune's: student's logits, teacher's, divergence, cross entropy; at once or in chunks."""
    student = build(order)
    teacher = build(order | {"config": order["teacher"]}).eval().requires_grad_(False)
    optimizer = torch.optim.AdamW(student.parameters())
    tokens = batch_of(order, student)["input_ids"]
    chunks = order.get("chunks", 1)
    for _ in range(2):
        loss = distillation_loss(student, teacher, tokens, chunks)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def head_of(model, tokens, chunks):
    hidden = model.model(input_ids=tokens).last_hidden_state
    parts = hidden.chunk(chunks, dim=1) if chunks > 1 else [hidden]
    return [model.lm_head(part).flatten(0, 1) for part in parts]


def distillation_loss(student, teacher, tokens, chunks):
    functional = torch.nn.functional
    logits = head_of(student, tokens, chunks)
    with torch.no_grad():
        teacher_logits = head_of(teacher, tokens, chunks)
    total = 0.0
    for one, other in zip(logits, teacher_logits, strict=True):
        total = total + divergence(one, other)
    for one, target in zip(logits, tokens.chunk(chunks, dim=1), strict=True):
        rows = one.float()
        total = total + functional.cross_entropy(rows, target.reshape(-1), reduction="sum")
    return total


def divergence(student, teacher):
    functional = torch.nn.functional
    chances = functional.softmax(teacher, dim=-1, dtype=torch.float32)
    infinite = torch.isinf(student)
    logs = functional.log_softmax(student, dim=-1, dtype=torch.float32)
    filled = torch.masked_fill(chances * logs, infinite, 0)
    return -filled.sum(-1).sum()


def generation(order):
    """Prefill and greedy decoding."""
    from pytest_membudget.steps import inference_step

    model = build(order).eval()
    tokens = torch.randint(0, 1000, (order.get("rows", 2), order.get("length", 512)), device="cuda")
    with torch.inference_mode():
        inference_step(model, tokens, new_tokens=order["new_tokens"])


def training_with_outputs(order):
    """A loop whose variable holds the model's outputs, logits among them, until it is bound again."""
    model = build(order)
    optimizer = torch.optim.AdamW(model.parameters(), **order.get("optimizer", {}))
    batch = batch_of(order, model)
    for _ in range(2):
        outputs = model(**batch)
        outputs.loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def sharded_loss(tokens, words):
    """Cross entropy of logits whose words two tensor-parallel ranks share."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Shard
    from torch.distributed.tensor.parallel import loss_parallel

    mesh = init_device_mesh("cuda", (2,))
    logits = torch.randn(tokens, words // 2, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    targets = torch.randint(0, words, (tokens,), device="cuda")
    with loss_parallel():
        whole = DTensor.from_local(logits, mesh, [Shard(1)])
        torch.nn.functional.cross_entropy(whole.float(), targets).backward()


def sharded_training(order):
    """Two steps with FSDP2: each layer by itself, embedding and head in the root."""
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    model = build(order)
    settings = (
        {"mp_policy": MixedPrecisionPolicy(torch.bfloat16, torch.float32)} if order.get("mixed") else {}
    )
    for layer in model.get_submodule(order["layers"]):
        fully_shard(layer, **settings)
    fully_shard(model, **settings)
    optimizer = torch.optim.AdamW(model.parameters())
    batch = batch_of(order, model)
    for _ in range(2):
        for _ in range(order.get("accumulation", 1)):
            model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
