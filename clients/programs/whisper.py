"""Whisper (tiny) by ``Seq2SeqTrainer``, as https://huggingface.co/blog/fine-tune-whisper trains it."""

import torch
from transformers import (
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    WhisperConfig,
    WhisperForConditionalGeneration,
)

TINY = WhisperConfig(
    d_model=384, encoder_layers=4, decoder_layers=4, encoder_attention_heads=6, decoder_attention_heads=6,
    encoder_ffn_dim=1536, decoder_ffn_dim=1536,
)  # fmt: skip
HEARD = [
    {"input_features": torch.randn(80, 3000), "labels": torch.randint(0, 50000, (64,))} for _ in range(16)
]
ARGUMENTS = Seq2SeqTrainingArguments(
    "out", per_device_train_batch_size=4, max_steps=2, fp16=True, gradient_checkpointing=True,
    report_to="none", save_strategy="no",
)  # fmt: skip

Seq2SeqTrainer(WhisperForConditionalGeneration(TINY), ARGUMENTS, train_dataset=HEARD).train()
