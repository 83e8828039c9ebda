"""Loops with Hugging Face ``accelerate``, as its users write their tests."""

import pytest

pytest.importorskip("transformers")
pytest.importorskip("accelerate")

import torch
from accelerate import (
    Accelerator,
    FullyShardedDataParallelPlugin,
    init_empty_weights,
    load_checkpoint_and_dispatch,
)
from accelerate.utils import find_executable_batch_size, set_seed
from torch.utils.data import DataLoader
from transformers import LlamaConfig, LlamaForCausalLM, get_linear_schedule_with_warmup

VOCABULARY, SEQUENCE = 8192, 256
SMALL = LlamaConfig(
    hidden_size=512,
    intermediate_size=1536,
    num_hidden_layers=4,
    num_attention_heads=8,
    num_key_value_heads=4,
    vocab_size=VOCABULARY,
    max_position_embeddings=SEQUENCE,
)
ROWS = [[(row + place) % VOCABULARY for place in range(SEQUENCE)] for row in range(16)]


def collate(rows):
    tokens = torch.tensor(rows)
    return {"input_ids": tokens, "labels": tokens.clone()}


def loader(**options):
    return DataLoader(ROWS, batch_size=4, collate_fn=collate, shuffle=True, **options)


def train(accelerator, steps=4):
    """The loop of accelerate's own documentation."""
    set_seed(42)
    model = LlamaForCausalLM(SMALL)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    scheduler = get_linear_schedule_with_warmup(optimizer, 1, steps)
    model, optimizer, batches, scheduler = accelerator.prepare(model, optimizer, loader(), scheduler)
    model.train()
    for step, batch in enumerate(batches):
        if step == steps:
            break
        with accelerator.accumulate(model):
            loss = model(**batch).loss
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        accelerator.log({"loss": loss.item()}, step=step)
        accelerator.print(f"step {step}: {loss.item():.3f}")
    return model, batches


@pytest.mark.mem_budget(gib=1)
@pytest.mark.parametrize("precision", ["no", "bf16", "fp16"])
def test_a_training_loop(precision):
    train(Accelerator(mixed_precision=precision))


@pytest.mark.mem_budget(gib=1)
def test_accumulation():
    train(Accelerator(mixed_precision="bf16", gradient_accumulation_steps=2))


@pytest.mark.mem_budget(gib=1, gpus=2)
def test_fsdp2_on_two_gpus():
    plugin = FullyShardedDataParallelPlugin(
        fsdp_version=2,
        auto_wrap_policy="transformer_based_wrap",
        transformer_cls_names_to_wrap=["LlamaDecoderLayer"],
    )
    train(Accelerator(mixed_precision="bf16", fsdp_plugin=plugin))


@pytest.mark.mem_budget(gib=1)
def test_states_saved_and_loaded(tmp_path):
    accelerator = Accelerator(mixed_precision="bf16")
    model, batches = train(accelerator, steps=2)
    accelerator.wait_for_everyone()
    accelerator.save_state(tmp_path / "checkpoint")
    accelerator.load_state(tmp_path / "checkpoint")
    for batch in accelerator.skip_first_batches(batches, 2):
        accelerator.backward(model(**batch).loss)
    accelerator.save_model(model, tmp_path / "model")
    accelerator.unwrap_model(model).save_pretrained(tmp_path / "pretrained")
    accelerator.end_training()


@pytest.mark.mem_budget(gib=1)
def test_evaluation_gathers_what_was_predicted():
    accelerator = Accelerator(mixed_precision="bf16")
    model, batches = accelerator.prepare(LlamaForCausalLM(SMALL), loader(num_workers=2, pin_memory=True))
    model.eval()
    right = seen = 0
    for batch in batches:
        with torch.no_grad():
            predicted = model(**batch).logits.argmax(dim=-1)
        predicted, labels = accelerator.gather_for_metrics((predicted, batch["labels"]))
        right += (predicted == labels).sum().item()
        seen += labels.numel()
    assert seen == 16 * SEQUENCE


@pytest.mark.mem_budget(gpu="T4")  # the largest batch that a card can hold is looked for
def test_the_largest_batch_that_fits():
    accelerator = Accelerator(mixed_precision="bf16")
    tried = []

    @find_executable_batch_size(starting_batch_size=512)
    def attempt(batch_size):
        accelerator.free_memory()
        tried.append(batch_size)
        model = accelerator.prepare(LlamaForCausalLM(SMALL))
        tokens = torch.zeros(batch_size, SEQUENCE, dtype=torch.long, device=accelerator.device)
        accelerator.backward(model(input_ids=tokens, labels=tokens).loss)

    attempt()
    assert 64 < tried[-1] < 512


@pytest.mark.mem_budget(gib=1)
def test_big_model_inference_with_layers_on_the_host(tmp_path):
    LlamaForCausalLM(SMALL).save_pretrained(tmp_path)
    with init_empty_weights():
        model = LlamaForCausalLM(SMALL)
    places = {"model.embed_tokens": 0, "model.norm": 0, "model.rotary_emb": 0, "lm_head": 0}
    places.update({f"model.layers.{layer}": 0 if layer < 2 else "cpu" for layer in range(4)})
    model = load_checkpoint_and_dispatch(model, str(tmp_path / "model.safetensors"), device_map=places)
    tokens = torch.zeros(1, SEQUENCE, dtype=torch.long, device="cuda")
    with torch.no_grad():
        assert model(tokens).logits.shape == (1, SEQUENCE, VOCABULARY)
