"""Trainers of Hugging Face ``trl``, as their users write their tests."""

import pytest

pytest.importorskip("trl")
pytest.importorskip("peft")

from datasets import Dataset
from peft import LoraConfig
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    LlamaForSequenceClassification,
    PreTrainedTokenizerFast,
)
from trl import (
    DPOConfig,
    DPOTrainer,
    GRPOConfig,
    GRPOTrainer,
    RewardConfig,
    RewardTrainer,
    SFTConfig,
    SFTTrainer,
)

VOCABULARY, SEQUENCE = 8192, 256
SMALL = {
    "hidden_size": 512,
    "intermediate_size": 1536,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 2 * SEQUENCE,
    "pad_token_id": 0,
    "eos_token_id": 1,
}
LORA = LoraConfig(r=16, lora_alpha=32, lora_dropout=0.05, target_modules="all-linear", task_type="CAUSAL_LM")
CHAT = (
    "{% for message in messages %}<{{ message['role'] }}> {{ message['content'] }} </s> {% endfor %}"
    "{% if add_generation_prompt %}<assistant> {% endif %}"
)


def tokenizer():
    """One word, one token."""
    words = ["<pad>", "</s>", "<unk>", "<user>", "<assistant>"]
    words += [f"w{number}" for number in range(VOCABULARY - len(words))]
    model = Tokenizer(WordLevel({word: place for place, word in enumerate(words)}, unk_token="<unk>"))
    model.pre_tokenizer = Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=model,
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
        additional_special_tokens=["<user>", "<assistant>"],
        chat_template=CHAT,
    )


def words(count, first=0):
    return " ".join(f"w{first + number}" for number in range(count))


def message(role, content):
    return [{"role": role, "content": content}]


def model():
    return LlamaForCausalLM(LlamaConfig(**SMALL))


def options(**more):
    given = {"per_device_train_batch_size": 4, "max_steps": 2, "logging_steps": 1, "report_to": "none"}
    return {**given, "bf16": True, "activation_checkpointing": False, "max_length": SEQUENCE, **more}


CONVERSATIONS = Dataset.from_list(
    [{"messages": message("user", words(50)) + message("assistant", words(300, row))} for row in range(16)]
)
PREFERENCES = Dataset.from_list(
    [
        {
            "prompt": message("user", words(56)),
            "chosen": message("assistant", words(180, row)),
            "rejected": message("assistant", words(180, row + 1)),
        }
        for row in range(16)
    ]
)


@pytest.mark.mem_budget(gib=1)
@pytest.mark.parametrize("peft_config", [None, LORA], ids=["full", "lora"])
def test_sft(tmp_path, peft_config):
    trainer = SFTTrainer(
        model=model(),
        args=SFTConfig(output_dir=tmp_path, **options()),
        train_dataset=CONVERSATIONS,
        processing_class=tokenizer(),
        peft_config=peft_config,
    )
    trainer.train()


@pytest.mark.mem_budget(gib=1)
def test_sft_packed(tmp_path):
    trainer = SFTTrainer(
        model=model(),
        args=SFTConfig(output_dir=tmp_path, **options(packing=True, packing_strategy="wrapped")),
        train_dataset=CONVERSATIONS,
        processing_class=tokenizer(),
    )
    trainer.train()


@pytest.mark.mem_budget(gib=2)
@pytest.mark.parametrize("peft_config", [None, LORA], ids=["full", "lora"])
def test_dpo(tmp_path, peft_config):
    trainer = DPOTrainer(
        model=model(),
        ref_model=None if peft_config else model(),
        args=DPOConfig(output_dir=tmp_path, beta=0.1, **options()),
        train_dataset=PREFERENCES,
        processing_class=tokenizer(),
        peft_config=peft_config,
    )
    trainer.train()


@pytest.mark.mem_budget(gib=2)
def test_dpo_with_reference_log_probabilities_made_before(tmp_path):
    trainer = DPOTrainer(
        model=model(),
        args=DPOConfig(output_dir=tmp_path, precompute_ref_log_probs=True, **options()),
        train_dataset=PREFERENCES,
        processing_class=tokenizer(),
    )
    trainer.train()


@pytest.mark.mem_budget(gib=1)
def test_reward(tmp_path):
    trainer = RewardTrainer(
        model=LlamaForSequenceClassification(LlamaConfig(**SMALL, num_labels=1)),
        args=RewardConfig(output_dir=tmp_path, **options()),
        train_dataset=PREFERENCES,
        processing_class=tokenizer(),
    )
    trainer.train()


def longer_is_better(completions, **kwargs):
    return [float(len(completion[0]["content"])) for completion in completions]


@pytest.mark.mem_budget(gib=2)
def test_grpo(tmp_path):
    given = options(num_generations=4, max_completion_length=16)
    del given["max_length"]
    trainer = GRPOTrainer(
        model=model(),
        args=GRPOConfig(output_dir=tmp_path, **given),
        reward_funcs=longer_is_better,
        train_dataset=PREFERENCES.select_columns("prompt"),
        processing_class=tokenizer(),
    )
    trainer.train()
