"""Which rows explain a growth: few, with their lines, and none where nothing has grown."""

from dataclasses import replace

import pytest

from pytest_membudget.comparison.findings import MOST_ROWS, explained
from pytest_membudget.results.comparison import GROWN, Comparison, Finding
from tests.comparison.conftest import figure_of as figure
from tests.comparison.conftest import holder as hold

MIB = 2**20


def explanation(head, base):
    return explained(Comparison(GROWN), head, base)


def findings(head, base):
    return explanation(head, base).findings


def scaled(head, base, kind):
    """How many times as large all of ``kind`` are said to be; None where nothing is."""
    return next((one.head for one in explanation(head, base).differences if one.kind == kind), None)


def times(factor):
    return factor and f"{factor:.3g} times as large"


def told(rows):
    return [(row.bytes // MIB, row.component, row.location) for row in rows]


def test_a_new_holder_is_the_finding():
    same = hold(100 * MIB, "parameters", location="model.py:3")
    rows = findings(figure(same, hold(64 * MIB, location="model.py:9")), figure(same))
    assert rows == (Finding(64 * MIB, "activations", "blocks.*", "model.py:9", None, "aten::mm"),)


UP, F, LOSS = ({"source": f"{text}"} for text in ("x = self.up(x)", "x = f(x)", "loss = f(logits)"))
CAUSE = hold(30 * MIB, location="m.py:5")
OF_CAUSE = (30, "activations", "m.py:5")
SAME = hold(100 * MIB, "parameters", "p", "p.py:1")
SOFTMAX = {"module": None, "operator": "aten::_log_softmax"}


def five_lines(offset, grown):
    lines = [hold(40 * MIB, location=f"model.py:{n + offset}", source=f"line {n}") for n in range(5)]
    return [*lines, hold((8 + grown) * MIB, location=f"model.py:{50 + offset}", source="the one")]


def of_one_text(*sizes, offset=0):
    places = [f"m.py:{n * 10 + offset}" for n in (1, 2, 3)]
    return [hold(size * MIB, location=place, **F) for size, place in zip(sizes, places, strict=True)]


#: What is held at the base and at the head, and the rows.
CASES = {
    "both take the same": ([hold(9 * MIB)], [hold(9 * MIB, "gradients")], []),
    # what is held when the body ends may have grown, of which these are not the rows
    "both take the same but for some bytes": (
        [hold(3000 * MIB), hold(9 * MIB, "gradients", "a")],
        [hold(3000 * MIB), hold(9 * MIB + 512, "inputs", "b", "m.py:3")],
        [],
    ),
    "lines that have moved, of which one has changed": (
        five_lines(0, 0), five_lines(7, 4), [(4, "activations", "model.py:57")]
    ),
    "the same text on several lines, distinguished by order": (
        of_one_text(5, 5, 5), of_one_text(5, 5, 9, offset=3), [(4, "activations", "m.py:33")]
    ),
    "one more line with the same text": (
        of_one_text(5, 5, 5), [*of_one_text(5, 5, 5), hold(9 * MIB, location="m.py:15", **F)],
        [(9, "activations", "m.py:15")],
    ),
    "a file with another name": (
        [hold(90 * MIB, location="old.py:9", **UP)],
        [hold(90 * MIB, location="new/model.py:9", **UP), hold(6 * MIB, "gradients", location="new/m.py:20")],
        [(6, "gradients", "new/m.py:20")],
    ),
    "memory that has moved within a component": (
        [hold(32 * MIB, "workspaces", "a", "m.py:1", count=2), hold(32 * MIB, "workspaces", "b", "m.py:2")],
        [hold(32 * MIB, "workspaces", "c", "t.py:1"), hold(32 * MIB, "workspaces", "b", "m.py:2"), CAUSE],
        [OF_CAUSE],
    ),
    "many lines of a module, at the largest": (
        [SAME],
        [SAME, *(hold((10 + n) * MIB, location=f"m.py:{100 + n}") for n in range(12))],
        [(sum(range(10, 22)), "activations", "m.py:111")],
    ),
    "a workspace with another first user": (
        [hold(64 * MIB, "workspaces", "q_proj", "a.py:10", source="self.q_proj(x)", count=2)],
        [
            hold(32 * MIB, "workspaces", "embed", "b.py:3", source="embed @ w.T", operator="aten::addmm"),
            hold(32 * MIB, "workspaces", None, "train.py:3", source="loss.backward()"),
            CAUSE,
        ],
        [OF_CAUSE],
    ),
    # as by ``requires_grad_(False)``, and under another module: what holds it is the same
    "a tensor that changed its component": (
        [hold(90 * MIB, "parameters", "q_proj.weight", "linear.py:8", source="empty(n, m)")],
        [hold(90 * MIB, "frozen_parameters", "q_proj.base.weight", "linear.py:9", source="empty(n, m)"),
         CAUSE],
        [OF_CAUSE],
    ),
    # its temporaries have no module: the operator and the size are what both have in common
    "a loss that was rewritten in another file": (
        [hold(90 * MIB, "temporaries", location="train.py:8", **LOSS, **SOFTMAX)],
        [hold(90 * MIB, "temporaries", location="losses.py:3", source="return f(x, y).mean()", **SOFTMAX),
         CAUSE],
        [OF_CAUSE],
    ),
    # a new cache and a tensor less that is as large, at lines that have nothing in common
    "an unrelated pair of one size has its rows": (
        [SAME, hold(40 * MIB, module="attend", location="attend.py:7", source="scores = scores.float()")],
        [SAME, hold(40 * MIB, module="cache", location="cache.py:9", source="self.keys.append(key)"),
         hold(100 * MIB, "gradients", "w", "train.py:5")],
        [(100, "gradients", "train.py:5"), (40, "activations", "cache.py:9"), (-40, "activations", None)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_rows_are_of_what_has_changed(name):
    base, head, rows = CASES[name]

    assert told(findings(figure(*head), figure(*base))) == rows


#: The same, and the one row's size, line and line at the base.
MOVED = {
    "a line that has moved": (
        [hold(10 * MIB, location="model.py:9", **UP)], [hold(30 * MIB, location="model.py:14", **UP)],
        (20, "model.py:14", "model.py:9"),
    ),
    "the same text in two files": (
        [hold(5 * MIB, location="b.py:10", **F), hold(5 * MIB, location="a.py:50", **F)],
        [hold(9 * MIB, location="b.py:60", **F), hold(5 * MIB, location="a.py:50", **F)],
        (4, "b.py:60", "b.py:10"),
    ),
    "what has shrunk": ([SAME, hold(64 * MIB, location="m.py:9")], [SAME], (-64, None, "m.py:9")),
    # two lines say the same in other names; a third, of the same size, is new
    "tensors of one size are not merged across lines": (
        [
            hold(64 * MIB, module="a", location="m.py:1", source="x = self.a(x)"),
            hold(64 * MIB, module="b", location="m.py:2", source="x = self.b(x).relu()"),
        ],
        [
            hold(64 * MIB, module="up", location="m.py:1", source="y = self.up(y)"),
            hold(64 * MIB, module="down", location="m.py:2", source="y = self.down(y).relu()"),
            hold(64 * MIB, module="new", location="m.py:3", source="kept.append(y.float())"),
        ],
        (64, "m.py:3", None),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVED)
def test_a_row_has_its_line_and_where_that_was(name):
    base, head, expected = MOVED[name]
    [row] = findings(figure(*head), figure(*base))

    assert (row.bytes // MIB, row.location, row.base) == expected


def test_what_the_holders_do_not_name_is_reported_as_elsewhere():
    base = figure(hold(100 * MIB))
    head = figure(hold(110 * MIB), rest=50 * MIB)
    rows = findings(head, base)
    assert told(rows) == [(10, "activations", "model.py:10"), (50, "rounding", None)]
    assert rows[1].module == "elsewhere"


@pytest.mark.parametrize("count", [1, 7, 40])
def test_the_rows_are_few_and_add_up_to_nine_tenths(count):
    names = ("parameters", "gradients", "optimizer_states", "activations", "inputs", "temporaries", "buffers")
    base = figure(hold(MIB, "workspaces"))
    head = figure(
        hold(MIB, "workspaces"),
        *(
            hold((n + 1) * MIB, names[n % 7], f"m{n}", f"m.py:{n}", operator=f"aten::op{n}")
            for n in range(count)
        ),
    )
    rows = findings(head, base)
    growth = sum(range(1, count + 1)) * MIB
    assert 1 <= len(rows) <= MOST_ROWS
    assert abs(sum(row.bytes for row in rows) - growth) <= growth * 0.1


# Growth over many lines


def test_growth_over_many_lines_is_the_components_with_the_number_of_lines_and_the_largest():
    base = [hold(100 * MIB, module=f"m{n}", location=f"m.py:{n}", source=f"line {n}") for n in range(1, 41)]
    head = [replace(one, bytes=(100 + n) * MIB) for n, one in enumerate(base, start=1)]
    [row] = findings(figure(*head), figure(*base))

    assert (row.bytes, row.count) == (40 * 41 // 2 * MIB, 40)
    assert (row.location, row.largest_bytes) == ("m.py:40", 40 * MIB)
    assert (row.component, row.module) == ("activations", None)


def test_a_line_of_several_operators_is_named_by_none_of_them():
    many = [hold(10 * MIB, module=f"m{n}", operator=f"aten::op{n}", location="m.py:7") for n in range(20)]
    [row] = findings(figure(*many), figure())

    assert (row.bytes, row.location, row.count) == (200 * MIB, "m.py:7", 1)
    assert (row.module, row.operator) == (None, None)


def test_what_the_rows_leave_out_is_counted_and_no_component():
    names = ("parameters", "gradients", "optimizer_states", "activations", "inputs", "temporaries", "buffers")
    head = [
        hold(10 * MIB, name, f"m{n}.{name}", f"{name}.py:{n}", operator=f"aten::op{n}")
        for name in names
        for n in range(2)
    ]
    *rows, last = findings(figure(*head), figure())

    assert [(row.bytes, row.count, row.largest_bytes) for row in rows] == [(20 * MIB, 2, 10 * MIB)] * 5
    assert (last.bytes, last.component, last.module) == (40 * MIB, "others", "elsewhere")


def called(*details):
    return hold(64 * MIB, location="model.py:7", details=details, source="return self.up(x)")


def test_a_line_that_another_line_calls_too_has_grown_by_what_that_one_holds():
    train, check = "loss = model(x)", "return model(x).shape"
    base = figure(SAME, called(train))
    head = figure(SAME, called(check, "train.py:12"), called(train, "train.py:20"))
    [row] = findings(head, base)

    assert (row.bytes, row.location, row.details) == (64 * MIB, "model.py:7", (check, "train.py:12"))


def test_many_lines_are_told_by_who_called_them():
    def lines(*callers):
        more = [{"details": (caller, caller), "source": "x = f(x)"} for caller in callers]
        return [
            hold(10 * MIB, module=f"m{n}", location=f"m.py:{n}", **one) for n in range(1, 13) for one in more
        ]

    student, teacher = "train.py:20", "train.py:21"
    [row] = findings(figure(SAME, *lines(student, teacher)), figure(SAME, *lines(student)))
    assert (row.bytes, row.count, row.details[1]) == (120 * MIB, 12, teacher)
    some = [replace(one, bytes=one.bytes + 9 * MIB) for one in lines(student)]
    rows = findings(figure(SAME, *some, *lines(teacher)), figure(SAME, *lines(student)))
    assert [(row.bytes, row.count, row.details[1]) for row in rows] == [
        (120 * MIB, 12, teacher), (108 * MIB, 12, student)
    ]  # fmt: skip


# Which row is first


def test_a_holder_that_entered_the_list_is_not_paired_with_one_that_left_it():
    """Both lists name the largest: at the base ``y`` is the last of them, at the head ``x``."""
    large = [hold(50 * MIB, "parameters", f"p{n}", f"p.py:{n}", source=f"p {n}") for n in range(3)]

    def x(size):
        return hold(size * MIB, location="m.py:1", source="x = self.up(x)")

    def y(size):
        return hold(size * MIB, location="m.py:9", source="y = other(z)")

    cause = hold(20 * MIB, "gradients", "w", "m.py:30", source="loss.backward()")
    base = replace(figure(*large, x(8), y(9)), holders=(*large, y(9)))
    head = replace(figure(*large, x(14), y(8), cause), holders=(*large, cause, x(14)))

    assert findings(head, base) == (
        Finding(20 * MIB, "gradients", "w", "m.py:30", None, "aten::mm", source="loss.backward()"),
        Finding(5 * MIB, "activations", "elsewhere"),
    )


def test_a_holder_that_is_larger_than_any_that_a_list_leaves_out_is_new():
    listed = hold(50 * MIB, "parameters", "p", "p.py:1")
    base = replace(figure(listed, hold(8 * MIB, location="m.py:1")), holders=(listed,))
    new = hold(60 * MIB, location="m.py:9")
    head = replace(figure(listed, hold(8 * MIB, location="m.py:1"), new), holders=(new, listed))

    assert told(findings(head, base)) == [(60, "activations", "m.py:9")]


def test_a_weight_that_is_gone_is_not_another_of_another_size():
    """Mixtral, transformers 4.47.1 -> 4.48.3: the layers' cos_cached are gone, and the model has inv_freq."""
    base = figure(hold(64 * MIB, "buffers", "layers.*.cos_cached", "m.py:3", source="self.cuda()"))
    head = figure(hold(MIB, "buffers", "inv_freq", "m.py:9", source="self.cuda()"))

    rows = [(row.bytes // MIB, row.module, row.location) for row in findings(head, base)]
    assert rows == [(-64, "layers.*.cos_cached", None)]


@pytest.mark.parametrize("count", [1, 5])
def test_unrelated_pairs_that_are_larger_than_the_cause_come_after_it(count):
    gone = [hold((90 + n) * MIB, module=f"a{n}", location=f"a.py:{n}", source=f"a{n}") for n in range(count)]
    new = [hold((90 + n) * MIB, module=f"b{n}", location=f"b.py:{n}", source=f"b({n})") for n in range(count)]
    cause = hold(20 * MIB, module="c", location="c.py:1", source="kept.append(x)")
    first, *rows = told(findings(figure(*new, cause), figure(*gone)))

    assert first == (20, "activations", "c.py:1")
    shown = sorted(range(90, 90 + count), reverse=True)[:2]
    assert [size for size, *_ in rows] == [size for each in shown for size in (each, -each)]


@pytest.mark.parametrize(
    ("phase", "temporary", "first"),
    [
        ("backward", 64, "activations"),
        ("backward", 6 * 20, "activations"),
        ("backward", 6 * 20 + 1, "temporaries"),
        ("recompute", 64, "temporaries"),
        ("forward", 64, "temporaries"),
    ],
)
def test_activations_come_before_what_their_backward_makes(phase, temporary, first):
    """A backward's temporary is the gradient of an activation; six times as much is something else."""
    kept = hold(20 * MIB, location="model.py:5")
    made = hold(temporary * MIB, "temporaries", location="train.py:9", phase=phase)

    assert findings(figure(kept, made), figure())[0].component == first


@pytest.mark.parametrize(("rounding", "first"), [(6 * 10, "parameters"), (6 * 10 + 1, "rounding")])
def test_rounding_comes_after_what_is_rounded(rounding, first):
    """Larger parameters lie in larger blocks; six times as much is something else."""
    states = hold(20 * MIB, "optimizer_states", "lora_A.exp_avg", "train.py:9")
    head = figure(hold(10 * MIB, "parameters", "lora_A", "model.py:5"), states, rest=rounding * MIB)

    assert findings(head, figure())[0].component == first


def test_what_has_grown_comes_before_what_has_shrunk():
    gone = hold(90 * MIB, "temporaries", location="a.py:1")
    new = hold(99 * MIB, "activations", location="b.py:1")

    assert [row.bytes // MIB for row in findings(figure(new), figure(gone))] == [99, -90]
    assert [row.bytes // MIB for row in findings(figure(gone), figure(new))] == [-99, 90]


# A larger batch, a longer sequence


def sample(batch, *, scores=1, weights=1):
    """What a step of ``batch`` samples holds; ``scores`` is another factor, of what grows by its square."""
    return [
        hold(8 * batch, "inputs", None, "train.py:1"),
        hold(batch * MIB, module="embed", location="m.py:1"),
        hold(4 * batch * MIB, module="mlp", location="m.py:2"),
        hold(2 * batch * MIB, "temporaries", "mlp", "m.py:3"),
        hold(scores * 2 * MIB, module="attention", location="m.py:4"),
        hold(weights * 100 * MIB, "parameters", "w", "m.py:9"),
    ]


@pytest.mark.parametrize(
    ("before", "after", "factor"),
    [
        ({"batch": 4}, {"batch": 6}, 1.5),
        ({"batch": 4}, {"batch": 3}, 0.75),
        ({"batch": 4, "scores": 4**2}, {"batch": 8, "scores": 8**2}, 2.0),
        ({"batch": 4}, {"batch": 4}, None),
        ({"batch": 1000}, {"batch": 1005}, None),  # "1 times as large"
        ({"batch": 4, "weights": 1}, {"batch": 6, "weights": 2}, None),
        ({"batch": 4, "scores": 1}, {"batch": 6, "scores": 20}, None),
    ],
)
def test_all_that_a_sample_takes_by_one_factor(before, after, factor):
    assert scaled(figure(*sample(**after)), figure(*sample(**before)), "inputs") == times(factor)


# More tokens of the same images: Dinov2 of transformers 4.47.1 has patches of 14 pixels, not of 16


def encoder(tokens, *, lines=6, wider=1, weights=100, images=6):
    return [
        hold(images * MIB, "inputs", None, "train.py:1"),
        hold(images * MIB, module="patches", location="m.py:1"),
        *(
            hold(tokens * (line + 1) * 1024, module="mlp", location=f"m.py:{line + 2}")
            for line in range(lines)
        ),
        hold(tokens * 4096 + MIB, module="mlp", location="m.py:29"),  # with copies of weights
        hold(tokens * wider * 2048, "temporaries", "mlp", "m.py:30"),
        hold(tokens * 512, "workspaces", None, "m.py:31"),
        hold(weights * MIB, "parameters", "w", "m.py:40"),
    ]


@pytest.mark.parametrize(
    ("head", "base", "factor"),
    [
        ({"tokens": 257}, {"tokens": 197}, 257 / 197),
        ({"tokens": 197}, {"tokens": 257}, 197 / 257),
        ({"tokens": 257}, {"tokens": 257}, None),
        # the inputs have grown as well, one line alone, or the weights
        ({"tokens": 300, "images": 9}, {"tokens": 200, "images": 6}, None),
        ({"tokens": 257, "lines": 1}, {"tokens": 197, "lines": 1}, None),
        ({"tokens": 257, "weights": 110}, {"tokens": 197}, None),
    ],
)
def test_activations_that_grew_throughout_without_the_inputs(head, base, factor):
    assert scaled(figure(*encoder(**head)), figure(*encoder(**base)), "activations") == times(factor)


def test_one_line_of_one_more_token_is_not_all_activations():
    """Llama, transformers 4.48.3 -> 4.57.6: the loss is of 512 tokens a text, where a copy had 511."""
    same = encoder(512)
    before, now = (4 * tokens * 16000 * 4 for tokens in (511, 512))
    copy = hold(before, "temporaries", "loss", "m.py:51")
    base = figure(*same, hold(before, module="loss", location="m.py:50"), copy)

    assert not explanation(figure(*same, hold(now, module="loss", location="m.py:50")), base).differences


def test_parameters_of_another_size_say_what_was_configured():
    """Dinov2: 768 x 3 x 16 x 16 and 197 x 768 numbers of fp32, then 14 x 14 and 257; the head is the same."""

    def model(patch, tokens):
        sizes = {
            "projection.weight": 768 * 3 * patch**2 * 4,
            "position_embeddings": tokens * 768 * 4,
            "head": MIB,
        }
        weights = [hold(size, "parameters", name, "m.py:40", source="cuda()") for name, size in sizes.items()]
        return figure(*encoder(tokens, lines=14), *weights)

    said = {
        one.details: (one.head, one.base) for one in explanation(model(14, 257), model(16, 197)).differences
    }
    assert said == {
        (): ("1.3 times as large", ""),
        ("projection.weight",): ("1.7 MiB", "2.2 MiB"),
        ("position_embeddings",): ("0.8 MiB", "0.6 MiB"),
    }


def test_activations_that_grew_by_several_factors_have_lines_as_causes():
    base = encoder(200)
    head = [replace(one, bytes=one.bytes * (2 + n % 3)) if one.component == "activations" else one
            for n, one in enumerate(base)]  # fmt: skip

    assert scaled(figure(*head), figure(*base), "activations") is None


# What a parameter entails: adapters in fp32, of peft 0.12.0


def test_parameters_come_before_their_gradients_and_states():
    head = [
        hold(8 * MIB, "optimizer_states", "w", "train.py:1"),
        hold(4 * MIB, "gradients", "w", "train.py:2"),
        hold(4 * MIB, "parameters", "w", "model.py:3"),
        hold(6 * MIB, "activations", "mlp", "model.py:4"),
    ]

    rows = findings(figure(*head), figure())
    assert [row.component for row in rows] == ["activations", "parameters", "optimizer_states", "gradients"]


def test_states_that_grew_beyond_their_parameters_have_another_cause():
    head = [hold(70 * MIB, "optimizer_states", "w", "a.py:1"), hold(9 * MIB, "parameters", "w", "a.py:3")]

    assert [row.component for row in findings(figure(*head), figure())] == ["optimizer_states", "parameters"]
