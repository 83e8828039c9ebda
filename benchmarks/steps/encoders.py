"""Encoders, and encoders with a decoder: BERT, RoBERTa, T5, BART, Whisper, ``nn.Transformer``."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from .training import TYPES, language_loss, on_cuda, tokens, trained


def bert(batch: int, length: int) -> None:
    """BERT base that classifies sequences, in float32, with dropout."""
    from transformers import BertConfig, BertForSequenceClassification

    with on_cuda():
        model = BertForSequenceClassification(BertConfig())
    inputs = {"input_ids": tokens(batch, length, 30_522), "labels": tokens(batch, 1, 2)[:, 0]}
    trained(model, language_loss(model, inputs), clip=True)


def roberta(batch: int, length: int) -> None:
    """RoBERTa large that fills in words, under bfloat16 autocast, with a mask over padding."""
    from transformers import RobertaConfig, RobertaForMaskedLM

    with on_cuda():
        model = RobertaForMaskedLM(RobertaConfig(
            vocab_size=50_265, hidden_size=1024, num_hidden_layers=24, num_attention_heads=16,
            intermediate_size=4096, max_position_embeddings=514, type_vocab_size=1,
        ))  # fmt: skip
    ids = tokens(batch, length, 50_265)
    mask = torch.ones_like(ids)
    mask[:, -length // 8 :] = 0
    loss = language_loss(model, {"input_ids": ids, "labels": ids, "attention_mask": mask})
    trained(model, loss, autocast=torch.bfloat16)


def t5(batch: int, length: int, dtype: str) -> None:
    """T5 base: relative positions added to the scores, Adafactor."""
    from transformers import T5Config, T5ForConditionalGeneration

    with on_cuda(TYPES[dtype]):
        config = T5Config(d_model=768, d_ff=3072, num_layers=12, num_heads=12, use_cache=False)
        config.decoder_start_token_id = 0
        model = T5ForConditionalGeneration(config)
    inputs = {"input_ids": tokens(batch, length, 32_128), "labels": tokens(batch, length // 4, 32_128)}
    trained(model, language_loss(model, inputs), lambda parameters: torch.optim.Adafactor(parameters))


def bart(batch: int, length: int) -> None:
    """BART large, in bfloat16."""
    from transformers import BartConfig, BartForConditionalGeneration

    with on_cuda(torch.bfloat16):
        model = BartForConditionalGeneration(BartConfig(use_cache=False))
    inputs = {"input_ids": tokens(batch, length, 50_265), "labels": tokens(batch, length // 2, 50_265)}
    trained(model, language_loss(model, inputs))


def whisper(batch: int) -> None:
    """Whisper small: two convolutions over 30 seconds of sound, an encoder, a decoder; float16 autocast."""
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    with on_cuda():
        model = WhisperForConditionalGeneration(WhisperConfig(
            d_model=768, encoder_layers=12, decoder_layers=12, encoder_attention_heads=12,
            decoder_attention_heads=12, encoder_ffn_dim=3072, decoder_ffn_dim=3072, use_cache=False,
        ))  # fmt: skip
    sound = torch.randn(batch, 80, 3000, device="cuda")
    inputs = {"input_features": sound, "labels": tokens(batch, 128, 50_000)}
    trained(model, language_loss(model, inputs), autocast=torch.float16)


def plain(batch: int, length: int) -> None:
    """``nn.Transformer`` of PyTorch, with masks, in float32."""
    with on_cuda():
        model = nn.Transformer(batch_first=True)
        source, target = (torch.randn(batch, size, 512) for size in (length, length // 2))
        mask = nn.Transformer.generate_square_subsequent_mask(length // 2)
    trained(model, lambda: F.mse_loss(model(source, target, tgt_mask=mask, tgt_is_causal=True), target))
