"""Hugging Face ``Trainer``, as its users write their tests."""

import itertools

import pytest

pytest.importorskip("transformers")
pytest.importorskip("accelerate")
pytest.importorskip("datasets")

import torch
from datasets import Dataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    LlamaConfig,
    LlamaForCausalLM,
    Trainer,
    TrainingArguments,
    default_data_collator,
)

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


def sentences(count):
    """Token ids and labels, as a tokenized data set has them."""
    rows = [[(row + place) % VOCABULARY for place in range(SEQUENCE)] for row in range(count)]
    return Dataset.from_dict({"input_ids": rows, "labels": rows})


def arguments(folder, **options):
    given = {"per_device_train_batch_size": 4, "max_steps": 2, "logging_steps": 1, "report_to": "none"}
    return TrainingArguments(output_dir=folder, **{**given, **options})


def fine_tune(args, model=None, **options):
    trainer = Trainer(
        model=model or LlamaForCausalLM(SMALL),
        args=args,
        train_dataset=sentences(16),
        data_collator=default_data_collator,
        **options,
    )
    trainer.train()
    return trainer


@pytest.mark.mem_budget(gib=1)
def test_full_fine_tuning(tmp_path):
    fine_tune(arguments(tmp_path, bf16=True))


@pytest.mark.mem_budget(gib=1)
def test_the_same_by_hand():
    model = LlamaForCausalLM(SMALL).cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, fused=True)
    loader = torch.utils.data.DataLoader(
        sentences(16), batch_size=4, collate_fn=default_data_collator, pin_memory=True
    )
    for batch in itertools.islice(loader, 2):
        batch = {name: tensor.to("cuda", non_blocking=True) for name, tensor in batch.items()}
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.mem_budget(gib=1)
def test_accumulation_checkpointing_and_loader_workers(tmp_path):
    args = arguments(
        tmp_path,
        bf16=True,
        gradient_accumulation_steps=2,
        activation_checkpointing=True,
        dataloader_num_workers=2,
        dataloader_persistent_workers=True,
        dataloader_drop_last=True,
    )
    fine_tune(args)


@pytest.mark.mem_budget(gib=1)
@pytest.mark.parametrize("optim", ["adamw_torch", "adamw_torch_fused", "adafactor", "sgd"])
def test_a_model_in_bf16(tmp_path, optim):
    fine_tune(arguments(tmp_path, optim=optim), LlamaForCausalLM(SMALL).to(torch.bfloat16))


@pytest.mark.mem_budget(gib=1)
def test_fp16_with_a_grad_scaler(tmp_path):
    fine_tune(arguments(tmp_path, fp16=True, save_strategy="no"))


@pytest.mark.mem_budget(gib=1, gpus=2)
def test_two_gpus(tmp_path):
    fine_tune(arguments(tmp_path, bf16=True))


@pytest.mark.mem_budget(gib=1)
def test_compiled(tmp_path):
    fine_tune(arguments(tmp_path, bf16=True, torch_compile=True, save_strategy="no"))


@pytest.mark.mem_budget(gib=1)
def test_memory_metrics(tmp_path):
    trainer = fine_tune(arguments(tmp_path, bf16=True, skip_memory_metrics=False))
    assert trainer.state.log_history[-1]["train_mem_gpu_peaked_delta"] > 0


@pytest.mark.mem_budget(gib=1)
def test_evaluated_saved_and_resumed(tmp_path):
    options = {"bf16": True, "eval_strategy": "steps", "eval_steps": 1, "save_steps": 1}
    args = arguments(tmp_path, **options, load_best_model_at_end=True, per_device_eval_batch_size=4)
    fine_tune(args, eval_dataset=sentences(4))

    longer = arguments(tmp_path, **{**options, "max_steps": 3}, per_device_eval_batch_size=4)
    trainer = Trainer(
        LlamaForCausalLM(SMALL), longer, default_data_collator, sentences(16), eval_dataset=sentences(4)
    )
    trainer.train(resume_from_checkpoint=True)
    trainer.save_model()


def accuracy(prediction):
    logits, labels = prediction
    return {"accuracy": float((logits.argmax(axis=-1) == labels).mean())}


@pytest.mark.mem_budget(gib=1)
def test_classification_with_metrics(tmp_path):
    config = BertConfig(hidden_size=256, num_hidden_layers=2, num_attention_heads=4, intermediate_size=1024)
    rows = [[101, *range(1000, 1000 + 20 + row), 102] for row in range(8)]
    padded = [row + [0] * (64 - len(row)) for row in rows]
    data = Dataset.from_dict(
        {
            "input_ids": padded,
            "attention_mask": [[int(token > 0) for token in row] for row in padded],
            "label": [row % 2 for row in range(8)],
        }
    ).train_test_split(test_size=0.5, shuffle=False)
    trainer = Trainer(
        model=BertForSequenceClassification(config),
        args=arguments(
            tmp_path, num_train_epochs=1, max_steps=-1, eval_strategy="epoch", save_strategy="epoch"
        ),
        train_dataset=data["train"],
        eval_dataset=data["test"],
        compute_metrics=accuracy,
    )
    trainer.train()
    assert set(trainer.evaluate()) >= {"eval_loss", "eval_accuracy"}
    assert trainer.predict(data["test"]).predictions.shape == (4, 2)
