"""An entry with other values of its fields: at each point of its grid, or one value on another card."""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

from ..budgets.budget import ARGUMENTS
from ..user_input.fields import Table, unknown_field
from ..user_input.kinds import TABLE, Composed, Value
from ..user_input.nodes import UNREADABLE, Mistakes, Node
from .reading import Entry, over
from .schema import GRID, NOT_IN_A_GRID, SCRIPT

#: Most tests of one grid; more are a mistake.
_MOST = 10_000
#: Fields that vary together, by their paths, with their values at each point.
_Axes = Mapping[tuple[str, ...], Sequence[tuple[Node, ...]]]


def points_of(entry: Entry) -> list[Entry]:
    """One entry without a grid for each point; a grid with mistakes is a single entry with them."""
    whole = replace(entry, fields={name: node for name, node in entry.fields.items() if name != GRID.name})
    grid = entry.fields.get(GRID.name)
    if grid is None or entry.mistakes:
        return [whole]
    mistakes = Mistakes()
    axes = _axes(grid, entry.table, mistakes)
    paths = [path for axis in axes for path in axis]
    _check_files(paths, whole.fields, grid, mistakes)
    if len(mistakes):
        return [replace(whole, mistakes=tuple(mistakes.lines))]
    lasts = [path.rpartition(".")[2] for path in paths]
    names = [last if lasts.count(last) == 1 else path for path, last in zip(paths, lasts, strict=True)]
    points: dict[str, Entry] = {}
    for values in product(*axes.values()):
        nodes = [node for some in values for node in some]
        words = "-".join(f"{name}={_word(node)}" for name, node in zip(names, nodes, strict=True))
        name = f"{entry.name}[{words}]"
        while name in points:  # values that are written the same
            name = f"{name[:-1]}'" + "]"
        fields = Node(dict(whole.fields), grid.file, grid.line)
        for path, node in zip(paths, nodes, strict=True):
            fields = put(entry.table, fields, path.split("."), node)
        points[name] = replace(whole, name=name, fields=entry.table.opened(fields) or {})
    return list(points.values())


def _axes(grid: Node, table: Table, mistakes: Mistakes) -> _Axes:
    if not isinstance(grid.value, dict) or not grid.value:
        mistakes.refuse(grid, "grid", "write a table of lists, as in grid: {micro_batch: [1, 2]}")
        return {}
    axes: dict[tuple[str, ...], Sequence[tuple[Node, ...]]] = {}
    seen, count = set[str](), 1
    for key, node in grid.value.items():
        paths = tuple(path.strip() for path in key.split(","))
        for path in paths:
            if what := unvariable(path, table):
                mistakes.add(node, f"grid: {what}")
            if path in seen:
                mistakes.add(node, f"grid: {path} is there twice; leave one of them out")
            seen.add(path)
        axes[paths] = tuple(_points(key, paths, node, mistakes))
        count *= len(axes[paths])
    if count > _MOST:
        mistakes.add(grid, f"grid: these are {count:,} tests; write a grid of at most {_MOST:,}")
    return axes


def unvariable(path: str, table: Table) -> str:
    """Why ``path`` is neither a field of ``table`` nor a key of a table that another module checks, or ""."""
    kind: object = table
    prefix = ""
    for name in path.split("."):
        if isinstance(kind, Table):
            if path in NOT_IN_A_GRID:
                return f"{path} cannot vary"
            if name not in kind.by_name:
                return unknown_field(kind, name, prefix)
            kind = kind.by_name[name].kind
        elif kind is TABLE or (isinstance(kind, Composed) and kind.has_keys):
            kind = None
        elif isinstance(kind, Value) and kind.takes({name: Node(1, "")}):
            kind = TABLE
        else:
            return f"{path}: {prefix.rstrip('.')} has no fields; write that alone"
        prefix += f"{name}."
    return ""


def _check_files(paths: Iterable[str], fields: Mapping[str, Node], grid: Node, mistakes: Mistakes) -> None:
    """Refuse to vary keys of a configuration that is named by its file; it must be written out."""
    for path in paths:
        model, _, key = path.partition(".config.")
        value = fields[model].value if key and model in fields else None
        if isinstance(value, dict) and "config" in value:
            value = value["config"].value
        if isinstance(value, str):
            mistakes.add(grid, f"grid: {path}: {model}.config names a file; write its content as a table")


def _points(key: str, paths: Sequence[str], node: Node, mistakes: Mistakes) -> Iterator[tuple[Node, ...]]:
    if not isinstance(node.value, list) or not node.value:
        mistakes.refuse(node, f"grid: {key}", f"write a list of values, as in {key}: [1, 2]")
        return
    for child in node.value:
        if len(paths) == 1:
            yield (child,)
        elif isinstance(child.value, list) and len(child.value) == len(paths):
            yield tuple(child.value)
        else:
            mistakes.refuse(child, f"grid: {key}", f"write a list of {len(paths)} values, one a field")


def put(kind: object, below: Node | None, names: Sequence[str], node: Node) -> Node:
    """``below``, of ``kind``, with ``node`` at the end of the path ``names``."""
    if not names:
        return over(kind, below, node) if below is not None else node
    name, *rest = names
    if isinstance(kind, Table):
        opened = dict(kind.opened(below) or {}) if below is not None else {}
        if name in kind.one_of:
            opened = {key: child for key, child in opened.items() if key not in kind.one_of or key == name}
        inner: object = kind.by_name[name].kind
    else:  # a table that another module checks; torchtitan's flavor is a key of it
        inner, written = None, below.value if below is not None else None
        opened = (
            dict(written) if isinstance(written, dict) else {"flavor": below} if below and written else {}
        )
    opened[name] = put(inner, opened.get(name), rest, node)
    return Node(opened, node.file, node.line)


def _word(node: Node) -> str:
    """A value for an id."""
    if isinstance(node.value, (dict, list)):
        return "+".join(map(_word, node.value.values() if isinstance(node.value, dict) else node.value))
    text = node.written.strip("'\"") or "null"
    if "/" in text or text.endswith(".json"):  # a path
        text = text.rstrip("/").rpartition("/")[2].removesuffix(".json")
    return text.replace("::", ":").replace("[", "(").replace("]", ")")


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
