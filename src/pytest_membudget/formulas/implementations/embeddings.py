"""The beginning of a model as transformers 5.23.0 writes it: tokens or patches to the residual stream."""

from __future__ import annotations

from ...components import ACTIVATIONS, INPUTS, TEMPORARIES
from ..model import Model, Patches
from ..number_types import bytes_for
from ..stage import Stage
from ..tape import Tape
from ..terms import Term
from .kept_tapes import kept
from .linears import embedding, linear
from .norms import norm
from .operators import add, cast, dropout, unary
from .recorder import Backward, Recorder, Value, wider
from .setting import Setting
from .styles import Style


@kept
def embedding_tape(setting: Setting, model: Model, style: Style, *, dims: str = "b s") -> Tape:
    """From token numbers, or pixels, to [b, s, h]."""
    width = model.embedding_dim or model.hidden
    sizes = {"V": -(-model.vocab // setting.tensor_parallel), "i": width, "P": model.positions}
    r = Recorder(setting, **sizes, T=model.token_types)
    if model.patches is not None:
        hidden = _patches(r, model.patches)
        return r.tape(_dropped(r, hidden, model))
    tokens = r.input("input_ids", dims, "int64", trains=False)
    dim = "i" if width != model.hidden else "h"
    hidden = embedding(r, "embed_tokens", tokens, "V", dim, joins=setting.shares_table)
    if model.scales_embedding:
        hidden = unary(r, "embed_tokens scaled", hidden)
    if width != model.hidden:
        hidden = linear(r, "project_in", hidden, "h", "i")
    if model.token_types:
        hidden = _token_types(r, hidden)
    if model.positions:
        hidden = _positions(r, hidden, by_sequence=style.scales_query, are_buffer=bool(model.token_types))
    if model.embedding_norm is not None:
        hidden = norm(r, "embedding norm", hidden, model.embedding_norm, "h")
    return r.tape(_dropped(r, hidden, model))


def rotary_tables(stage: Stage, setting: Setting, style: Style) -> tuple[Term, ...]:
    """Cosines and sines of all positions, [1, s, w], which every layer saves.

    Gemma 3 has a pair for layers with a window and one for those without.
    """
    shapes = [layer.attention for layer, _ in stage.groups]
    width = max((shape.rotary_dim for shape in shapes), default=0)
    if not width:
        return ()
    pairs = len({shape.window for shape in shapes}) if style.norms_after_transpose else 1
    kind = style.table or setting.residual
    size = bytes_for(setting.sizes(w=width).bytes("s w"), kind)
    return (
        Term(ACTIVATIONS, "rotary cos and sin", 2 * pairs * size, f"{2 * pairs}*s*w*{kind}", "", 2 * pairs),
    )


def embeddings_held(setting: Setting, model: Model) -> tuple[Term, ...]:
    """``inputs_embeds`` and positions, variables of the base model's forward, while its layers run."""
    if model.patches is not None or model.token_types:
        return ()  # a separate module made the embeddings: what it gave is the first layer's input
    sizes = setting.sizes()
    kind = setting.stored
    size = bytes_for(sizes.bytes("b s h"), kind)
    terms = [Term(TEMPORARIES, "inputs_embeds", size, f"b*s*h*{kind}")]
    if model.positions:
        size = bytes_for(sizes.bytes("s h"), kind)
        terms.append(Term(TEMPORARIES, "position_embeds", size, f"s*h*{kind}"))
    return tuple(terms)


def _dropped(r: Recorder, hidden: Value, model: Model) -> Value:
    return dropout(r, "embedding dropout", hidden, model.embedding_dropout)


def _token_types(r: Recorder, hidden: Value) -> Value:
    """BERT's: numbers gathered from a buffer for one sequence, rows for all."""
    numbers = r.run("token_type_ids", (), "s", "int64")
    rows = r.run("token types of all", (numbers,), "b s", "int64", view_of=numbers)
    types = embedding(r, "token_type_embeddings", rows, "T", "h", saves_rows=True)
    result = add(r, "tokens + types", hidden, types)
    r.hold(hidden, types)
    return result


def _positions(r: Recorder, hidden: Value, *, by_sequence: bool, are_buffer: bool) -> Value:
    """Learned positions, the same for all sequences (their gradients are summed), or each its own (OPT).

    ``are_buffer``: the numbers are a buffer of the model's (BERT).
    """
    numbers = r.run("position_ids", (), "b s" if by_sequence else "s", "int64")
    table = embedding(r, "embed_positions", numbers, "P", "h", saves_rows=not are_buffer)
    own = table if by_sequence else r.run("positions of all", (table,), "b s h", hidden.kind, view_of=table)
    result = add(r, "hidden_states", hidden, own)
    r.hold(hidden, table)
    return result


def _patches(r: Recorder, shape: Patches) -> Value:
    """ViT: a convolution makes patches, a class token is put before them, positions are added."""
    stored, kind, trains = r.setting.stored, r.setting.product, r.setting.trains
    pixels = f"b {shape.channels} {shape.image_size} {shape.image_size}"
    image = r.input("pixel_values", pixels, stored, trains=False, component=INPUTS)
    narrow = cast(r, "pixel_values cast", image, kind)
    kernel = f"h {shape.channels} {shape.patch_size} {shape.patch_size}"
    bias = (r.weight("patches.bias", "h", stored),) if trains else ()
    gradient = (r.weight("patches.weight", kernel, stored),) if trains else ()
    reads, kept = [narrow], [image, narrow]  # the loop's batch holds the image in any case
    if kind != stored:
        weight = r.run("patches.weight cast", (), kernel, kind, Backward(weights=gradient))
        reads, kept, gradient = [narrow, weight], [*kept, weight], ()
    back = Backward(tuple(kept), weights=(*gradient, *bias))
    made = r.run("patches", reads, f"b {shape.count} h", kind, back)
    token = (r.weight("cls_token", "h", stored),) if trains else ()
    back = Backward(weights=token, hands_on=True)
    joined = r.run("with class token", (made,), "b s h", wider(kind, stored), back)
    table = (r.weight("position_embeddings", "s h", stored),) if trains else ()
    back = Backward(weights=table, hands_on=True)
    return r.run("hidden_states", (joined,), "b s h", stored, back)
