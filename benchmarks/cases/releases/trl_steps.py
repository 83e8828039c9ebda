"""Two small steps of trl's trainers, 0.8 to 1, with a model and texts made here."""

import dataclasses
import inspect

import datasets
import pytest
import tokenizers
import torch
import transformers
import trl

pytestmark = pytest.mark.mem_budget(gib=70)

WORDS = 16000
#: Words of a text: a prompt, then an answer.
PROMPT, ANSWER = 128, 384
LLAMA = {
    "vocab_size": WORDS,
    "hidden_size": 512,
    "intermediate_size": 1536,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
STEPS = {
    "max_steps": 2,
    "per_device_train_batch_size": 4,
    "bf16": True,
    "gradient_checkpointing": False,
    "report_to": [],
    "save_strategy": "no",
    "logging_steps": 1,
    "dataloader_pin_memory": False,
    "max_length": PROMPT + ANSWER,
    "max_seq_length": PROMPT + ANSWER,
    "max_prompt_length": PROMPT,
    "max_completion_length": 64,
}
PREFERENCES = ("prompt", "chosen", "rejected")
TRAINERS = {
    "SFT": ("text",),
    "DPO": PREFERENCES,
    "CPO": PREFERENCES,
    "ORPO": PREFERENCES,
    "KTO": ("prompt", "completion", "label"),
    "Reward": ("chosen", "rejected"),
    "GRPO": ("prompt",),
}


def words(count, seed=0):
    return " ".join(f"w{3 + (seed * 7919 + n * 31) % (WORDS - 3)}" for n in range(count))


def rows(columns):
    row = {
        "text": words(PROMPT + ANSWER),
        "prompt": words(PROMPT),
        "chosen": words(ANSWER, 1),
        "rejected": words(ANSWER, 2),
        "completion": words(ANSWER, 3),
    }
    return datasets.Dataset.from_list(
        [{name: n % 2 == 0 if name == "label" else row[name] for name in columns} for n in range(16)]
    )


def tokenizer():
    vocabulary = {"<pad>": 0, "<s>": 1, "</s>": 2, **{f"w{n}": n for n in range(3, WORDS)}}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<pad>"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        model_input_names=["input_ids", "attention_mask"],
    )


def model(kind=transformers.AutoModelForCausalLM, **changes):
    return kind.from_config(transformers.LlamaConfig(**{**LLAMA, **changes}))


def configuration(name, folder, **options):
    kind = getattr(trl, f"{name}Config", None)
    if kind is None or getattr(trl, f"{name}Trainer", None) is None:
        pytest.skip(f"trl {trl.__version__} has no {name}Config or no {name}Trainer")
    fields = {field.name for field in dataclasses.fields(kind)}
    given = {**STEPS, **options}
    return kind(output_dir=str(folder), **{key: value for key, value in given.items() if key in fields})


def trained(name, folder, trained_model, **options):
    kind = getattr(trl, f"{name}Trainer", None)
    args = configuration(name, folder, **options)
    accepted = inspect.signature(kind.__init__).parameters
    if "model" not in accepted or (name == "Reward" and "processing_class" not in accepted):
        pytest.skip(f"trl {trl.__version__} wants other data, or several models, for {name}")
    given = {
        "tokenizer": tokenizer(),
        "processing_class": tokenizer(),
        "reward_funcs": lambda completions, **others: [float(len(one)) for one in completions],
        "dataset_text_field": "text",
        "max_seq_length": args.max_length if name == "DPO" else PROMPT + ANSWER,
    }
    if "processing_class" in accepted:
        del given["tokenizer"]
    kind(
        model=trained_model,
        args=args,
        train_dataset=rows(TRAINERS[name]),
        **{key: value for key, value in given.items() if key in accepted},
    ).train()


@pytest.mark.parametrize("name", ["SFT", "DPO", "CPO", "ORPO", "KTO"])
def test_trainer(name, tmp_path):
    trained(name, tmp_path, model())


@pytest.mark.parametrize("name", ["SFT", "DPO"])
def test_trainer_with_checkpoints(name, tmp_path):
    trained(name, tmp_path, model(), gradient_checkpointing=True)


def test_packed(tmp_path):
    trained("SFT", tmp_path, model(), packing=True)


def test_reward(tmp_path):
    trained("Reward", tmp_path, model(transformers.AutoModelForSequenceClassification, num_labels=1))


def test_online(tmp_path):
    trained("GRPO", tmp_path, model(), num_generations=4)


def test_value_head():
    kind = getattr(trl, "AutoModelForCausalLMWithValueHead", None)
    if kind is None:
        pytest.skip(f"trl {trl.__version__} has no AutoModelForCausalLMWithValueHead")
    policy = kind.from_pretrained(model()).cuda().train()
    tokens = torch.randint(3, WORDS, (4, PROMPT + ANSWER), device="cuda")
    for _ in range(2):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits, _, value = policy(tokens)
        (logits.float().logsumexp(-1).mean() + value.mean()).backward()
        policy.zero_grad()
