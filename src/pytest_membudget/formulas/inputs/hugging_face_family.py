"""What the readers of Hugging Face configurations share: a family of models, its tasks, its usual parts."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final, Literal, TypeVar

from ..model import Layer, Model, Norm, Stack
from .fields import Fields

#: The head on the base model: the vocabulary's logits, classes of a sequence, of each token, or nothing.
Task = Literal["language", "pretraining", "sequence", "token", "none"]
Variant = TypeVar("Variant", bound=Hashable)

DECODER_TASKS: Final[Mapping[str, Task]] = {
    "ForCausalLM": "language",
    "Model": "none",
    "ForSequenceClassification": "sequence",
}
#: Of classes made from transformers' GenericForTokenClassification.
GENERIC_TASKS: Final[Mapping[str, Task]] = {**DECODER_TASKS, "ForTokenClassification": "token"}

#: Keys of nearly every class that change neither shapes nor what a step keeps.
USUAL_IGNORED: Final = frozenset(
    {"initializer_range", "use_cache", "pad_token_id", "bos_token_id", "eos_token_id"}
)
#: Keys that rotary positions are written in; only the turning part of a head matters here.
ROTARY_KEYS: Final = frozenset({"rope_theta", "rope_scaling", "partial_rotary_factor"})


@dataclass(frozen=True, slots=True)
class Head:
    """What a configuration says of the class that runs it."""

    name: str
    architecture: str
    task: Task
    classes: int

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments of ``Model`` that follow for a decoder: no bias on classes of a sequence."""
        is_classifier = self.task in ("sequence", "token")
        return {
            "name": self.name,
            "architecture": self.architecture,
            "has_head": self.task != "none",
            "classes": self.classes if is_classifier else 0,
            "head_bias": self.task == "token",
        }


@dataclass(frozen=True, slots=True)
class Family:
    """One ``model_type``: its keys with their defaults, and how a model is made of them."""

    class_name: str
    """Before ``ForCausalLM`` and the like."""
    defaults: Mapping[str, object]
    """Keys that are read, as transformers 5.23.0 has them."""
    ignored: frozenset[str]
    """Other keys of the class: they change no shape."""
    build: Callable[[Fields, Head], Model]
    tasks: Mapping[str, Task] = field(default_factory=lambda: DECODER_TASKS)
    extras: Mapping[str, object] = field(default_factory=dict)
    """Keys that the modelling code reads though the class has no such field."""
    legacy: frozenset[str] = frozenset()
    """Keys that published files have and transformers 5 no longer reads."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Other names of keys, as the class's ``attribute_map`` has them."""

    @property
    def usual_class(self) -> str:
        """Where a configuration names none: the first one that has a task."""
        return f"{self.class_name}{next(iter(self.tasks))}"


def keys(**values: object) -> dict[str, object]:
    """Keys with their defaults, as a table has them."""
    return values


def head_dim(fields: Fields, *, key: str = "head_dim", heads: str = "num_attention_heads") -> int:
    """The width of a head: as written, or the hidden size over the heads, which must be whole."""
    given = fields.optional_size(key)
    return divided(fields, "hidden_size", heads) if given is None else given


def divided(fields: Fields, whole: str, parts: str) -> int:
    """``whole`` over ``parts``; an error where that leaves a rest."""
    size, count = fields.size(whole), fields.size(parts)
    if size % count:
        raise fields.mistake(f"{whole}={size} is not a multiple of {parts}={count}; write one that is")
    return size // count


def kv_heads(fields: Fields, *, key: str = "num_key_value_heads") -> int:
    """Heads of keys and values: as written (they must divide the queries'), or as many as queries have."""
    heads = fields.size("num_attention_heads")
    given = fields.optional_size(key)
    if given is not None and heads % given:
        raise fields.mistake(
            f"{key}={given} does not divide num_attention_heads={heads}; write one that does"
        )
    return heads if given is None else given


def rotary_dim(
    fields: Fields, width: int, *, usual: float = 1.0, legacy: str = "partial_rotary_factor"
) -> int:
    """How much of a head of ``width`` turns by position; ``usual``: the part where none is written."""
    part: object = fields.optional(legacy)
    for key in ("rope_scaling", "rope_parameters"):
        written = fields.mapping(key).get("partial_rotary_factor")
        part = part if written is None else written
    part = usual if part is None else part
    if isinstance(part, bool) or not isinstance(part, int | float) or not 0 < part <= 1:
        raise fields.mistake(
            f"partial_rotary_factor={part!r} cannot be used; write a number above 0 and up to 1"
        )
    return int(width * part)


def layer_windows(
    fields: Fields, layers: int, default: Callable[[int], bool], size: int | None
) -> list[int | None]:
    """Each layer's window: ``size`` where ``layer_types`` says so, or ``default`` where there is none."""
    written = fields.names("layer_types", layers) if fields.optional("layer_types") is not None else None
    if written is None:
        return [size if default(number) else None for number in range(layers)]
    known = {"full_attention", "sliding_attention", "chunked_attention"}
    for name in written:
        if name not in known:
            raise fields.mistake(
                f"layer_types has {name!r}, which is not understood; write one of {', '.join(sorted(known))}"
            )
    return [None if name == "full_attention" else size for name in written]


def rotary_layers(fields: Fields, layers: int) -> list[bool]:
    """Which layers have rotary positions, where some have none (SmolLM 3, Llama 4)."""
    written = fields.sizes("no_rope_layers")
    if not written:
        every = fields.size("no_rope_layer_interval")
        return [(number + 1) % every != 0 for number in range(layers)]
    if len(written) != layers:
        raise fields.mistake(f"no_rope_layers has {len(written)} entries; write {layers}, one a layer")
    return [bool(each) for each in written]


def grouped(variants: Sequence[Variant], make: Callable[[Variant], Layer]) -> tuple[tuple[Layer, int], ...]:
    """The layers of a stack: ``make`` for each variant, identical neighbours together."""
    made = {variant: make(variant) for variant in dict.fromkeys(variants)}
    runs = groupby(made[variant] for variant in variants)
    return tuple((layer, sum(1 for _ in run)) for layer, run in runs)


def decoder(
    fields: Fields,
    head: Head,
    groups: tuple[tuple[Layer, int], ...],
    *,
    norm: Norm,
    **others: Any,
) -> Model:
    """A decoder alone, of the usual keys; ``others`` are more arguments of ``Model``, and win."""
    settings: dict[str, Any] = {
        **head.settings,
        "vocab": fields.size("vocab_size"),
        "decoder": Stack(groups, fields.size("hidden_size"), final_norm=norm),
        "tied": fields.flag("tie_word_embeddings"),
        "max_positions": fields.size("max_position_embeddings"),
    }
    return Model(**{**settings, **others})
