"""Models from Hugging Face ``config.json`` files, as the classes of transformers 5.23.0 make them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from ...errors import UsageMistake
from ..model import Model
from . import (
    hugging_face_decoders,
    hugging_face_deepseek,
    hugging_face_encoders,
    hugging_face_experts,
    hugging_face_falcon_opt_phi,
    hugging_face_gemma,
    hugging_face_gpt,
    hugging_face_windowed_experts,
)
from .fields import Fields, nearest
from .hugging_face_family import ROTARY_KEYS, Family, Head, Task

FAMILIES: Final[Mapping[str, Family]] = MappingProxyType(
    {
        **hugging_face_decoders.FAMILIES, **hugging_face_gemma.FAMILIES, **hugging_face_gpt.FAMILIES,
        **hugging_face_falcon_opt_phi.FAMILIES, **hugging_face_experts.FAMILIES,
        **hugging_face_deepseek.FAMILIES, **hugging_face_windowed_experts.FAMILIES,
        **hugging_face_encoders.FAMILIES,
    }
)  # fmt: skip
#: Models of text and images: the text's part is read, and its own ``model_type`` where it has none.
_WRAPPERS: Final = MappingProxyType({"gemma3": "gemma3_text", "llama4": "llama4_text"})

#: Fields of transformers' PreTrainedConfig (5.23.0).
BASE_KEYS: Final = frozenset(
    {
        "transformers_version", "architectures", "output_hidden_states", "return_dict", "dtype",
        "chunk_size_feed_forward", "is_encoder_decoder", "id2label", "label2id", "problem_type",
    }
)  # fmt: skip
#: Other keys that any published file may have, and that change no shape of the model.
_HARMLESS: Final = BASE_KEYS | {
    "model_type", "num_labels", "torch_dtype", "auto_map", "attn_implementation", "experts_implementation",
    "gradient_checkpointing", "output_attentions", "name_or_path", "quantization_config",
    "task_specific_params", "tokenizer_class", "torchscript", "use_bfloat16", "tie_encoder_decoder",
    "cross_attention_hidden_size", "finetuning_task", "sep_token_id", "decoder_start_token_id", "is_decoder",
    "tf_legacy_loss", "unsloth_version", "per_layer_config", "pruned_heads",
}  # fmt: skip
#: Settings of ``generate`` (GenerationConfig, 5.23.0), which older files keep with the model's.
GENERATION_KEYS: Final = frozenset(
    {
        "assistant_confidence_threshold", "assistant_lookbehind", "bad_words_ids", "begin_suppress_tokens",
        "diversity_penalty", "do_sample", "early_stopping", "encoder_no_repeat_ngram_size",
        "encoder_repetition_penalty", "epsilon_cutoff", "eta_cutoff", "exponential_decay_length_penalty",
        "forced_bos_token_id", "forced_eos_token_id", "length_penalty", "max_length", "min_length",
        "no_repeat_ngram_size", "num_assistant_tokens", "num_assistant_tokens_schedule", "num_beam_groups",
        "num_beams", "num_return_sequences", "output_scores", "remove_invalid_values", "repetition_penalty",
        "return_dict_in_generate", "suppress_tokens", "target_lookbehind", "temperature", "top_k", "top_p",
        "typical_p", "use_cache",
    }
)  # fmt: skip
#: Parts of a key's name that say it may change shapes.
_SHAPE_WORDS: Final = re.compile(
    r"hidden|size|dim|head|layer|expert|rank|width|inner|ffn|vocab|proj|bias|norm|embd|embed|groups?$|tie"
)


def read_config(
    config: Mapping[str, object], *, name: str | None = None, where: str = "config.json"
) -> Model:
    """The model that transformers 5.23.0 builds from ``config``, the content of a ``config.json``.

    Absent keys have the defaults of the configuration's class. The class is ``architectures[0]``, or the
    family's usual one. Of a model of text and images the text's part is read alone, and its name says so.
    Quantised weights (``quantization_config``) are read as if they were not.

    Raises ``UsageMistake`` for an architecture that is not known, for a key that may change shapes and is not
    understood, and for values of the wrong kind: ``where``, key, value, and what to write.
    """
    model_type = config.get("model_type")
    text = config.get("text_config")
    if isinstance(text, Mapping):
        return _text_part(config, text, name, where)
    family = FAMILIES.get(model_type) if isinstance(model_type, str) else None
    if family is None:
        raise UsageMistake(_unknown_type(config, where))
    given = {family.aliases.get(key, key): value for key, value in config.items()}
    _check_keys(given, family, where)
    fields = Fields(given, {**family.extras, **family.defaults}, where)
    return family.build(fields, _head(given, family, fields, name))


def model_of_path(path: str | Path) -> Model:
    """The model of a ``config.json``, or of the folder that holds one. Raises ``UsageMistake``."""
    file = Path(path)
    if file.is_dir():
        file /= "config.json"
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageMistake(
            f"{file} cannot be read ({error.strerror}); write a config.json or its folder"
        ) from None
    except ValueError as error:
        raise UsageMistake(f"{file} is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise UsageMistake(f"{file} holds no mapping of names to values; write a Hugging Face config.json")
    name = file.parent.name if file.name == "config.json" else file.stem
    return read_config(content, name=name or None, where=str(file))


def _text_part(
    config: Mapping[str, object], text: Mapping[str, object], name: str | None, where: str
) -> Model:
    model_type = text.get("model_type") or _WRAPPERS.get(str(config.get("model_type")))
    part = {**text, "model_type": model_type, "architectures": None}
    if "tie_word_embeddings" in config:
        part.setdefault("tie_word_embeddings", config["tie_word_embeddings"])
    whole = name or _name_of(config) or "model"
    return read_config(part, name=f"{whole} (text part only)", where=f"{where}, text_config")


def _name_of(config: Mapping[str, object]) -> str | None:
    written = config.get("_name_or_path")
    return written if isinstance(written, str) and written else None


def _head(given: Mapping[str, object], family: Family, fields: Fields, name: str | None) -> Head:
    architecture = _architecture(given, family, fields)
    task = _task(architecture, family)
    if task is None:
        known = " or ".join(family.class_name + suffix for suffix in family.tasks)
        raise fields.mistake(f"architectures={[architecture]!r} is not understood; write {known}")
    return Head(name or _name_of(given) or architecture, architecture, task, _classes(given, fields))


def _architecture(given: Mapping[str, object], family: Family, fields: Fields) -> str:
    written = given.get("architectures")
    if not written:
        return family.usual_class
    if not isinstance(written, list | tuple) or not isinstance(written[0], str):
        raise fields.mistake(f"architectures={written!r} cannot be used; write [{family.usual_class!r}]")
    return written[0]


def _task(architecture: str, family: Family) -> Task | None:
    if not architecture.startswith(family.class_name):
        return None
    return family.tasks.get(architecture.removeprefix(family.class_name))


def _classes(given: Mapping[str, object], fields: Fields) -> int:
    """Labels of a classifier; transformers takes two where none are written."""
    labels = given.get("id2label")
    if isinstance(labels, Mapping):
        return len(labels)
    return Fields(given, {"num_labels": 2}, fields.where).size("num_labels")


def _check_keys(given: Mapping[str, object], family: Family, where: str) -> None:
    """No key that may change shapes is passed over."""
    for key in ("per_layer_config", "pruned_heads"):
        if given.get(key):
            raise UsageMistake(f"{where}: {key}={given[key]!r} makes layers unlike; only {{}} is understood")
    known = {*family.defaults, *family.extras}
    unknown = (
        given.keys() - known - family.ignored - family.legacy - _HARMLESS - GENERATION_KEYS - ROTARY_KEYS
    )
    for key in sorted(unknown):
        value = given[key]
        if key.startswith("_") or value in (None, False) or not _SHAPE_WORDS.search(key):
            continue
        hint = nearest(key, known) or " Leave it out if the model's class does not read it."
        problem = f"may change shapes, and {family.class_name}Config has no such key"
        raise UsageMistake(f"{where}: {key}={value!r} {problem}.{hint}")


def _unknown_type(config: Mapping[str, object], where: str) -> str:
    written = config.get("model_type")
    hint = nearest(written, FAMILIES) if isinstance(written, str) else ""
    what = "model_type is missing" if written is None else f"model_type={written!r} is not known"
    return (
        f"{where}: {what}.{hint} Known: {', '.join(FAMILIES)}. Any other model can be written as a shape: "
        "vocab, hidden, layers, heads, and where they differ kv_heads, head_dim, intermediate, gated, tied, "
        "positions, experts, experts_per_token, expert_intermediate"
    )
