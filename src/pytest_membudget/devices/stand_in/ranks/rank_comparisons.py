"""Which ranks a file picks: by comparisons of what it names as a rank."""

import ast
import functools
import inspect
import linecache
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

#: Comparisons that may be true of one rank alone.
_PICKING = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)
_RANK = re.compile("rank(?!s)|process_index", re.IGNORECASE)
_ASKING = re.compile(r"get_(node_local_|local_|group_)?rank\(|\bRANK\b|LOCAL_RANK|process_index")
_ENVIRONMENT = re.compile(r"\b(environ|getenv)\b")
#: How many there are, of all.
_SIZE = re.compile(r"world_size(\(\))?$|\bWORLD_SIZE\b", re.IGNORECASE)
#: What is computed of a rank, and of each that is named.
_COMPUTING = {"int": int, "str": str, "range": range, "set": set}
_ATOMS = (int, str)
_OWN_NAMES = {"rank", "_rank", "global_rank", "local_rank", "RANK", "LOCAL_RANK"}


class Comparisons:
    """Those of a file."""

    def __init__(self, file: str) -> None:
        nodes = [*ast.walk(tree_of(file))]
        asserted = {below for one in nodes if isinstance(one, ast.Assert) for below in ast.walk(one)}
        self._aliases = frozenset(name for one in nodes for name in _assigned(one))
        self._counted = frozenset(name for one in nodes for name in _loop_names(one))
        compared = [one for one in nodes if isinstance(one, ast.Compare) and one not in asserted]
        # not by an order, or how many there are: both ends are run
        picking = [one for one in compared if len(one.ops) > 1 or isinstance(one.ops[0], _PICKING)]
        self._picking = [one for one in picking if any(map(self._is_rank, _operands(one)))]
        #: values of what the comparisons name, by its text
        self._known: dict[str, Any] = {}

    def learn(self, namespace: Mapping[str, Any]) -> None:
        """Look up what the comparisons name among what the file's module has."""
        for text in {ast.unparse(one) for compared in self._picking for one in _named(compared)}:
            value = _looked_up(text.split("."), namespace)
            if _is_plain(value):
                self._known[text] = value

    def picked(self, size: int, rank: int) -> set[int]:
        """Of ``size`` ranks the first and the last for which a comparison gives another answer than for most.

        ``rank``: whose run this is; a name of a rank that has this number is taken to be that.
        """
        found: set[int] = set()
        for one in self._picking:
            answers = self._answers(one, size, rank)
            # the first and the last of those who do otherwise than this rank, or of fewer who do as it does
            sides: tuple[list[int], list[int]] = ([], [])
            for other, answer in enumerate(answers):
                sides[answer == answers[rank]].append(other)
            if all(sides):
                least = min(sides, key=len)
                found |= {least[0], least[-1]}
        return found

    def has_names(self, size: int, rank: int) -> bool:
        """Whether one picks a rank by a name whose value is not known."""
        return any(
            self._names_another(one)
            or (any(map(self._is_unknown, _operands(one))) and not self._answers(one, size, rank))
            for one in self._picking
        )

    def _names_another(self, compared: ast.Compare) -> bool:
        """Whether it has two ranks, of which one is not known, and not named as a rank's own is."""
        ranks = [one for one in _operands(compared) if self._is_rank(one)]
        names = [ast.unparse(one) for one in ranks if isinstance(one, (ast.Name, ast.Attribute))]
        return len(ranks) > 1 and any(
            one not in self._known and one.split(".")[-1] not in _OWN_NAMES | self._aliases | self._counted
            for one in names
        )

    def _is_rank(self, node: ast.AST) -> bool:
        return any(name in self._aliases or _RANK.search(name) for name in _names(node))

    def _is_unknown(self, operand: ast.expr) -> bool:
        names = {ast.unparse(one) for one in _named(operand)} - self._counted
        return bool(names) and not self._is_rank(operand) and "size" not in ast.unparse(operand).lower()

    def _answers(self, compared: ast.Compare, size: int, rank: int) -> Sequence[Any]:
        """What ``compared`` gives for each of ``size`` ranks; nothing where it is not known."""
        try:
            code = self._code(compared, size, rank)
            return [bool(eval(code, {"__builtins__": {}, **_COMPUTING, "rank": one})) for one in range(size)]
        except Exception:  # a name that nobody knows, or what texts and numbers raise that do not go together
            return ()

    def _code(self, compared: ast.Compare, size: int, rank: int) -> Any:
        own = {
            name for name, value in self._known.items() if _RANK.search(name) and value in (rank, str(rank))
        }
        known = {name: value for name, value in self._known.items() if name not in own}

        class Plain(ast.NodeTransformer):
            def visit(inner, node: ast.AST) -> Any:  # noqa: N805
                return self._plain(node, known, size) or ast.NodeTransformer.generic_visit(inner, node)

        copied = ast.parse(ast.unparse(compared), mode="eval")
        return compile(ast.fix_missing_locations(Plain().visit(copied)), "<comparison>", "eval")

    def _plain(self, node: ast.AST, known: Mapping[str, Any], size: int) -> ast.expr | None:
        """What ``node`` is: a value, or the rank; None where its parts do."""
        if not isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)):
            return None
        text = ast.unparse(node)
        if text in known:
            return ast.parse(repr(known[text]), mode="eval").body
        if isinstance(node, ast.Call) and ast.unparse(node.func) in _COMPUTING:
            return None
        is_text = bool(_ENVIRONMENT.search(text))
        if _SIZE.search(text) and "local" not in text.lower():
            return ast.Constant(str(size) if is_text else size)
        if isinstance(node, ast.Call) and (node.args or node.keywords) and not is_text:
            return None  # a rank of a group
        if self._is_rank(node):
            return ast.parse("str(rank)" if is_text else "rank", mode="eval").body
        return None


#: Those of a file.
comparisons_of = functools.lru_cache(maxsize=256)(Comparisons)


def names_ranks(file: str) -> bool:
    """Whether anything in the source ``file`` may be named as a rank."""
    return any(map(_RANK.search, linecache.getlines(file)))


@functools.lru_cache(maxsize=1024)
def imported_names(file: str) -> frozenset[str]:
    """The last names of the modules that ``file`` may import, and of what it imports from them."""
    nodes = [one for one in ast.walk(tree_of(file)) if isinstance(one, (ast.Import, ast.ImportFrom))]
    modules = [one.module or "" for one in nodes if isinstance(one, ast.ImportFrom)]
    return frozenset(
        name.rpartition(".")[2] for name in [*modules, *(one.name for node in nodes for one in node.names)]
    )


def tree_of(file: str) -> ast.AST:
    """Of the source ``file``; an empty one where there is none."""
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return ast.Module([], [])


def _assigned(node: ast.AST) -> list[str]:
    """The name that ``node`` gives a rank that is asked for."""
    pairs: list[tuple[ast.expr, ast.expr]] = []
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target, value = node.targets[0], node.value
        both = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
        pairs = [*zip(target.elts, value.elts, strict=False)] if both else [(target, value)]  # type: ignore[attr-defined]
    elif isinstance(node, ast.NamedExpr):
        pairs = [(node.target, node.value)]
    return [
        one.id for one, value in pairs if isinstance(one, ast.Name) and _ASKING.search(ast.unparse(value))
    ]


def _loop_names(node: ast.AST) -> list[str]:
    """The name that a loop over all ranks gives each of them: each is at its turn."""
    if not isinstance(node, (ast.For, ast.comprehension)) or "size" not in ast.unparse(node.iter).lower():
        return []
    return [one.id for one in ast.walk(node.target) if isinstance(one, ast.Name)]


def _names(node: ast.AST) -> Iterator[str]:
    """Those in ``node``, also of variables of the environment: other texts are messages and keys."""
    for one in ast.walk(node):
        if isinstance(one, ast.Constant) and isinstance(one.value, str) and one.value.isupper():
            yield one.value
        elif isinstance(one, (ast.Name, ast.Attribute)):
            yield one.id if isinstance(one, ast.Name) else one.attr


def _operands(node: ast.Compare) -> list[ast.expr]:
    return [node.left, *node.comparators]


def _named(node: ast.AST) -> list[ast.expr]:
    """The names in ``node``, with all of their attributes, but those that are called."""
    found: list[ast.expr] = []
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, (ast.Name, ast.Attribute)):
            found.append(one)
        elif isinstance(one, ast.Call):
            waiting += [*one.args, *[given.value for given in one.keywords]]
        else:
            waiting += ast.iter_child_nodes(one)
    return found


def _looked_up(parts: Sequence[str], namespace: Mapping[str, Any]) -> Any:
    """The value of a name with attributes, where no code of the user's runs to get it; else None."""
    value = namespace.get(parts[0])
    for part in parts[1:]:
        value = inspect.getattr_static(value, part, None)
    return value


def _is_plain(value: Any) -> bool:
    if type(value) in (tuple, list, set, frozenset, range):
        return len(value) < 1000 and all(type(one) in _ATOMS for one in value)
    return type(value) in _ATOMS
