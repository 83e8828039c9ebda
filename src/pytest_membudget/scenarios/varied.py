"""An entry with another value of one of its fields, or of an argument of its script, on another card."""

import shlex
from dataclasses import replace

from ..budgets.budget import ARGUMENTS
from ..user_input.nodes import UNREADABLE, Mistakes, Node
from .grid import put, unvariable
from .reading import Entry
from .schema import SCRIPT


def with_value(entry: Entry, name: str, value: int, gpu: str) -> Entry:
    """``entry`` with ``value`` for ``name``, and for its budget what the card ``gpu`` can hold.

    ``name``: the path of a field, as in a grid, or an argument of the script, as ``--batch_size``. What
    cannot be varied is one of its mistakes.
    """
    limits = ARGUMENTS.by_name.keys() - {"gpus"}  # which says what is run, and not how much it may take
    fields = {key: node for key, node in entry.fields.items() if key not in limits}
    fields["gpu"] = replace(entry.node, value=gpu, written=gpu)
    new, mistakes = replace(entry.node, value=value, written=str(value)), Mistakes()
    if name.startswith("-"):
        fields["script"] = _with_argument(entry, name, new, mistakes)
    elif what := unvariable(name, entry.table):
        mistakes.add(entry.node, what)
    else:
        node = put(entry.table, Node(fields, entry.node.file, entry.node.line), name.split("."), new)
        fields = dict(entry.table.opened(node) or {})
    return replace(entry, fields=fields, mistakes=(*entry.mistakes, *mistakes.lines))


def _with_argument(entry: Entry, name: str, new: Node, mistakes: Mistakes) -> Node:
    """The script of ``entry`` with ``new`` after ``name``, or after ``name=``."""
    script = entry.fields.get("script", entry.node)
    words = SCRIPT.by_name["script"].kind.read(script, "script", Mistakes()) if entry.table is SCRIPT else ()
    if words is UNREADABLE:  # which the entry's own mistakes say
        words = ()
    starts = f"{name}="
    if name not in words[:-1] and not any(word.startswith(starts) for word in words):
        mistakes.add(script, f"script: {script.text}: write {name} with a value in it, to vary it")
    changed = (
        f"{starts}{new.value}" if word.startswith(starts) else str(new.value) if before == name else word
        for before, word in zip(("", *words), words, strict=False)
    )
    text = shlex.join(changed)
    return replace(script, value=text, written=text)
