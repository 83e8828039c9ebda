"""JsonObject: what is written comes back; what is untrusted is checked, and refused by its key path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import pytest

from pytest_membudget.caveats import OTHER_MISSING, Caveat
from pytest_membudget.json_object import Difference, JsonObject, Lines, Misfit, Word


@dataclass(frozen=True)
class Tensor(JsonObject):
    derived: ClassVar[tuple[str, ...]] = ("elements",)

    name: Word
    shape: tuple[int, ...]
    children: tuple[Tensor, ...] = ()
    sizes: Mapping[str, Difference | None] = field(default_factory=dict)
    span: Annotated[tuple[int, int], "a first and a last"] | None = None
    about: Lines = ""

    @property
    def elements(self):
        return len(self.shape)


INNER = Tensor("bias", (2,), about="a\nb")
WHOLE = Tensor("weight", (2, 3), (INNER,), {"x": -1, "y": None}, (1, 2))
WRITTEN = {
    "name": "weight",
    "shape": [2, 3],
    "children": [
        {
            "name": "bias", "shape": [2], "children": [], "sizes": {}, "span": None, "about": "a\nb",
            "elements": 1,
        }
    ],
    "sizes": {"x": -1, "y": None},
    "span": [1, 2],
    "about": "",
    "elements": 2,
}  # fmt: skip


@pytest.mark.parametrize("checked", [False, True])
def test_what_is_written_comes_back(checked):
    assert WHOLE.to_json() == WRITTEN
    assert Tensor.from_json(WRITTEN, checked=checked) == WHOLE
    assert Tensor.from_json({"name": "a", "shape": [], "later": {}}, checked=checked) == Tensor("a", ())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "A"}, 'name: must be a word of small letters, as in optimizer_states, and is "A"'),
        ({"shape": [0, -1]}, "shape[1]: must be a whole number from 0 to 9223372036854775807, and is -1"),
        ({"span": [1]}, "span: must be a first and a last, and is a list of 1"),
        ({"children": [{"name": "b"}]}, "children[0].shape: must be there, and is missing"),
        ({"sizes": {"a b": "1"}}, 'sizes["a b"]: must be a whole number from -9223372036854775807'),
        ({"children": 1}, "children: must be a list of at most 100,000, and is 1"),
    ],
)
def test_an_untrusted_value_that_does_not_fit_is_refused_by_its_key_path(change, message):
    with pytest.raises(Misfit) as refused:
        Tensor.from_json({**WRITTEN, **change}, checked=True)
    assert str(refused.value).startswith(message)


def test_control_characters_of_untrusted_texts_are_escaped_and_no_others():
    written = {**WRITTEN, "about": "a\n\x1b"}

    assert Tensor.from_json(written, checked=True).about == "a\n\\x1b"
    assert Tensor.from_json(written).about == "a\n\x1b"


def test_a_cause_of_a_caveat_that_is_not_known_is_taken_for_the_worst():
    assert Caveat.from_json({"cause": "later", "text": "x"}) == Caveat(OTHER_MISSING, "x")
