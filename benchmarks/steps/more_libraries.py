"""Further libraries, from their own code: processes, sentences, metrics, adapters, graphs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .language_models import llama_model
from .research_vision import perceptron, transformer
from .training import TYPES, UPDATES, backward, language_loss, on_cuda, tokens, trained


def equivariant(nodes: int, edges: int) -> None:
    """e3nn: messages by tensor products with spherical harmonics, weights by distance."""
    from e3nn import o3
    from e3nn.nn import Gate

    scalars, gated = "64x0e", "32x1o + 16x2e"
    with on_cuda():
        gate = Gate(scalars, [torch.nn.functional.silu], "48x0e", [torch.sigmoid], gated)
        product = o3.FullyConnectedTensorProduct("64x0e", "1x0e + 1x1o + 1x2e", gate.irreps_in,
                                                 shared_weights=False).cuda()  # fmt: skip
        gate, weights, places = gate.cuda(), perceptron(8, 64, product.weight_numel), torch.randn(nodes, 3)
        x, (start, ends) = torch.randn(nodes, 64), torch.randint(0, nodes, (2, edges))
        head = o3.Linear(gate.irreps_out, "1x0e").cuda()

    def loss() -> Tensor:
        way = places[start] - places[ends]
        waves = o3.spherical_harmonics("1x0e + 1x1o + 1x2e", way, normalize=True, normalization="component")
        near = torch.exp(-(way.norm(dim=1, keepdim=True) - torch.linspace(0, 3, 8, device="cuda")).square())
        sent = product(x[start], waves, weights(near))
        out: Tensor = head(gate(sent.new_zeros(nodes, sent.shape[1]).index_add(0, ends, sent)))
        return out.square().mean()

    trained(nn.ModuleList([gate, product, weights, head]), loss)


def gaussian_process(points: int, exact: bool) -> None:
    """gpytorch: an exact process by conjugate gradients, or a variational one with inducing points."""
    import gpytorch

    with on_cuda():
        x, y = torch.rand(points, 8), torch.randn(points)

    def prior(x: Tensor, kernel: Any, mean: Any) -> Any:
        return gpytorch.distributions.MultivariateNormal(mean(x), kernel(x))

    likelihood: Any = gpytorch.likelihoods.GaussianLikelihood().cuda()
    base: Any = gpytorch.models.ExactGP if exact else gpytorch.models.ApproximateGP
    mean, kernel = (
        gpytorch.means.ConstantMean(),
        gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel()),
    )
    kind: Any = type("Process", (base,), {"forward": lambda self, x: prior(x, self.kernel, self.mean)})
    if exact:
        model = kind(x, y, likelihood)
        score = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    else:
        shape = gpytorch.variational.MeanFieldVariationalDistribution(512)
        model = kind(None)
        model.variational_strategy = gpytorch.variational.VariationalStrategy(model, x[:512].cpu(), shape)
        score = gpytorch.mlls.VariationalELBO(likelihood, model, points)
    model.mean, model.kernel = mean, kernel
    model.cuda()
    with (
        gpytorch.settings.max_cholesky_size(0 if exact else 800),
        gpytorch.settings.max_preconditioner_size(0),
    ):
        trained(nn.ModuleList([model, likelihood]), lambda: -score(model(x), y))


class _Sentences(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.layers = nn.Embedding(30_000, 384), transformer(384, 6, 6)

    def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
        seen = self.layers(self.words(features["input_ids"])) * features["attention_mask"][..., None]
        return features | {
            "sentence_embedding": seen.sum(1) / features["attention_mask"].sum(1, keepdim=True)
        }


def ranked_sentences(batch: int, length: int, cached: bool) -> None:
    """sentence-transformers: other answers of a batch as wrong ones, at once or with cached gradients."""
    from sentence_transformers import SentenceTransformer, losses

    with on_cuda():
        model = SentenceTransformer(modules=[_Sentences()], device="cuda")
        mask = torch.ones(batch, length)
    features = [{"input_ids": tokens(batch, length, 30_000), "attention_mask": mask} for _ in range(2)]
    chunked: Any = losses.CachedMultipleNegativesRankingLoss
    rank = chunked(model, mini_batch_size=64) if cached else losses.MultipleNegativesRankingLoss(model)
    trained(model, lambda: rank([dict(part) for part in features], None), autocast=torch.bfloat16)


def evaluated(batches: int, rows: int, classes: int) -> None:
    """torchmetrics: a collection over batches without gradients, some of which keep every score."""
    import torchmetrics
    from torchmetrics import classification as kinds

    with on_cuda():
        model, x = perceptron(1024, 4096, classes), torch.randn(rows, 1024)
        labels = torch.arange(rows) % classes
    metrics = torchmetrics.MetricCollection([
        kinds.MulticlassAccuracy(classes, validate_args=False),
        kinds.MulticlassF1Score(classes, validate_args=False),
        kinds.MulticlassConfusionMatrix(classes, validate_args=False),
        kinds.MulticlassAUROC(classes, thresholds=20, validate_args=False),
        kinds.MulticlassCalibrationError(classes, validate_args=False),
    ]).to("cuda")  # fmt: skip
    with torch.no_grad():
        for _ in range(batches):
            metrics.update(model(x).softmax(-1), labels)
        metrics.compute()


def pooled_graphs(kind: str, graphs: int) -> None:
    """PyTorch Geometric: layers of a kind over many small graphs, norms and pooling by graph."""
    from torch_geometric import nn as layers

    nodes, width = graphs * 30, 128
    with on_cuda():
        make: Any = {
            "sage": lambda: layers.SAGEConv(width, width, aggr=["mean", "max", "std"]),
            "gin": lambda: layers.GINConv(perceptron(width, 256, width), train_eps=True),
            "pna": lambda: layers.PNAConv(width, width, ["mean", "max", "std"], ["identity", "amplification"],
                                          torch.arange(12, device="cpu"), towers=4),
            "transformer": lambda: layers.TransformerConv(width, 32, 4, edge_dim=16, beta=True),
        }[kind]  # fmt: skip
        model = nn.ModuleList([make() for _ in range(3)])
        norm, head, x = layers.GraphNorm(width), nn.Linear(2 * width, 10), torch.randn(nodes, width)
        graph, features = torch.arange(nodes) // 30, torch.randn(nodes * 8, 16)
        edges = torch.stack([torch.arange(nodes * 8) // 8, torch.arange(nodes * 8) * 7 % nodes])
        labels = torch.randint(0, 10, (graphs,))

    def loss() -> Tensor:
        h = x
        for layer in model:
            out = layer(h, edges, features) if kind == "transformer" else layer(h, edges)
            h = h + norm(out, graph, graphs).relu()
        pooled = [layers.global_mean_pool(h, graph, graphs), layers.global_max_pool(h, graph, graphs)]
        return F.cross_entropy(head(torch.cat(pooled, 1)), labels)

    trained(nn.ModuleList([model, norm, head]), loss)


def peft_variant(kind: str, length: int) -> None:
    """peft: another kind of adapter on a Llama of 160M in bfloat16."""
    import peft

    every = {"task_type": "CAUSAL_LM"}
    config = {
        "dora": lambda: peft.LoraConfig(r=16, target_modules="all-linear", use_dora=True, **every),
        "ia3": lambda: peft.IA3Config(target_modules=["k_proj", "v_proj", "down_proj"],
                                      feedforward_modules=["down_proj"], **every),
        "prefix": lambda: peft.PrefixTuningConfig(num_virtual_tokens=32, prefix_projection=True,
                                                  encoder_hidden_size=512, **every),
        "adalora": lambda: peft.AdaLoraConfig(init_r=12, target_r=8, total_step=10,
                                              target_modules=["q_proj", "v_proj"], **every),
        "oft": lambda: peft.OFTConfig(oft_block_size=32, target_modules=["q_proj", "v_proj"], **every),
        "vera": lambda: peft.VeraConfig(r=64, target_modules=["q_proj", "o_proj"], **every),
    }[kind]()  # fmt: skip
    model = peft.get_peft_model(llama_model("160m", torch.bfloat16), config)
    ids = tokens(4, length, 32_000)
    inputs = {"input_ids": ids, "labels": ids, "attention_mask": torch.ones_like(ids)}
    trained(model, language_loss(model, inputs))


def accelerated(length: int, accumulate: int) -> None:
    """accelerate's loop: accumulation, mixed precision, clipping, a schedule."""
    from accelerate import Accelerator

    accelerator = Accelerator(mixed_precision="fp16", gradient_accumulation_steps=accumulate)
    with torch.device("cpu"):
        rows = [torch.arange(length) + index for index in range(4 * accumulate * UPDATES)]
    base: Any = llama_model("160m", torch.float32)
    optimizer = torch.optim.AdamW(base.parameters(), lr=1e-4)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer)
    loaded: Any = torch.utils.data.DataLoader(rows, batch_size=4)  # type: ignore[arg-type]
    model, optimizer, loaded, schedule = accelerator.prepare(base, optimizer, loaded, schedule)
    for ids in loaded:
        with accelerator.accumulate(model):
            accelerator.backward(model(input_ids=ids, labels=ids).loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()


def layers_on_host(length: int) -> None:
    """accelerate's offloading: weights on the host, each layer's brought when it runs."""
    from accelerate import cpu_offload

    model = cpu_offload(llama_model("1b", torch.bfloat16).cpu(), torch.device("cuda"))
    ids = tokens(2, length, 32_000)
    with torch.no_grad():
        for _ in range(UPDATES):
            model(input_ids=ids)


def timm_recipe(name: str, optimizer: str, batch: int) -> None:
    """timm's recipe: an optimizer of its own, decay by layer, mixed images, an average of the weights."""
    from timm import create_model
    from timm.data import Mixup
    from timm.loss import SoftTargetCrossEntropy
    from timm.optim import create_optimizer_v2
    from timm.utils import ModelEmaV3

    with on_cuda():
        model = create_model(name, num_classes=1000, drop_path_rate=0.1)
        images, labels = torch.randn(batch, 3, 224, 224), torch.randint(0, 1000, (batch,))
    updater = create_optimizer_v2(model, opt=optimizer, lr=1e-3, weight_decay=0.05, layer_decay=0.75)
    average, mixed, loss_of = (
        ModelEmaV3(model),
        Mixup(cutmix_alpha=1.0, num_classes=1000),
        SoftTargetCrossEntropy(),
    )
    for _ in range(UPDATES):
        x, wanted = mixed(images.clone(), labels)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = loss_of(model(x), wanted)
        backward(loss)
        updater.step()
        updater.zero_grad()
        average.update(model)


def inputs_model(
    model: str, options: Mapping[str, Any], inputs: Mapping[str, Any], autocast: str = ""
) -> None:
    """A model of transformers, by class; each input is a shape of normal values, or of ids below a limit."""
    import transformers

    kind: Any = getattr(transformers, model)
    config = kind.config_class(**options)
    with on_cuda(torch.float32 if autocast else torch.bfloat16):
        made = kind(config)
        given = {
            name: torch.randint(0, low[0], tuple(shape)) if low else torch.randn(*shape)
            for name, (shape, *low) in inputs.items()
        }
    trained(made, language_loss(made, given), autocast=TYPES[autocast] if autocast else None)
