"""Grids: a test for each combination, with ids that can be read and chosen."""

import pytest


def budget(grid, rest=""):
    return f"budgets:\n  - name: a\n    {rest}\n    grid: {grid}\n"


def adam(implementation):
    return {"name": "adam", "momentum": True, "implementation": implementation}


#: The grid, another field of the budget, the field that is looked at, and its value in each test.
GRIDS = {
    "each combination": (
        "{micro_batch: [1, 2], sequence: [512, 1024]}", "", "sequence",
        {"micro_batch=1-sequence=512": 512, "micro_batch=1-sequence=1024": 1024,
         "micro_batch=2-sequence=512": 512, "micro_batch=2-sequence=1024": 1024},
    ),
    "each combination, the first field": (
        "{micro_batch: [1, 2], sequence: [5, 6]}", "", "micro_batch",
        {"micro_batch=1-sequence=5": 1, "micro_batch=1-sequence=6": 1,
         "micro_batch=2-sequence=5": 2, "micro_batch=2-sequence=6": 2},
    ),
    "fields that go together are one axis": (
        "{'micro_batch, gib': [[1, 40], [2, 60]]}", "", "gib",
        {"micro_batch=1-gib=40": 40, "micro_batch=2-gib=60": 60},
    ),
    "a field of a table varies and the others stay": (
        "{optimizer.implementation: [foreach, fused]}", "optimizer: {name: adam, momentum: true}",
        "optimizer",
        {"implementation=foreach": adam("foreach"), "implementation=fused": adam("fused")},
    ),
    "the short form of a table is kept": (
        "{optimizer.implementation: [fused]}", "optimizer: sgd", "optimizer",
        {"implementation=fused": {"name": "sgd", "implementation": "fused"}},
    ),
    "a value can be a table, and null leaves a field out": (
        "{method: [full, {kind: lora, rank: 8}], gpu: [T4, null]}", "gpu: L4", "gpu",
        {"method=full-gpu=T4": "T4", "method=full-gpu=null": None,
         "method=lora+8-gpu=T4": "T4", "method=lora+8-gpu=null": None},
    ),
    "models are named by their files": (
        "{model: [configs/llama-3-8b.json, {config: ./qwen.json}]}", "", "gpu",
        {"model=llama-3-8b": None, "model=qwen": None},
    ),
    "a value of a shape": (
        "{model.shape.layers: [1, 2]}", "model: {shape: {hidden: 8, layers: 9}}", "model",
        {f"layers={layers}": {"shape": {"hidden": 8, "layers": layers}} for layers in (1, 2)},
    ),
    "a key of a configuration that is written out": (
        "{model.config.num_hidden_layers: [1]}", "model: {config: {hidden_size: 8}}", "model",
        {"num_hidden_layers=1": {"config": {"hidden_size": 8, "num_hidden_layers": 1}}},
    ),
    "names with equal ends are written out": (
        "{model.config: [a.json], teacher.config: [b.json]}", "", "gpu",
        {"model.config=a-teacher.config=b": None},
    ),
    "values with equal texts have different ids": (
        "{model: [x/a.json, y/a.json]}", "", "gpu", {"model=a": None, "model=a'": None}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GRIDS)
def test_each_combination_of_values_is_a_test(folder, name):
    grid, rest, field, values = GRIDS[name]

    points = folder.points(budget(grid, rest))

    found = {
        key: point.fields[field].plain if field in point.fields else None for key, point in points.items()
    }
    assert list(found.items()) == [(f"a[{key}]", value) for key, value in values.items()]
    assert all("grid" not in point.fields for point in points.values())


def test_a_budget_without_a_grid_is_one_test(folder):
    assert list(folder.points("budgets: [{name: a, gib: 1}]")) == ["a"]


@pytest.mark.parametrize("model", ["a.json", "{config: a.json}"])
def test_a_key_of_a_file_does_not_vary(folder, model):
    [point] = folder.points(budget("{model.config.num_hidden_layers: [1]}", f"model: {model}")).values()

    assert "model.config names a file; write its content as a table" in point.mistakes[0]


@pytest.mark.parametrize(
    ("grid", "told"),
    [
        ("{}", "f.membudget.yaml:4: grid: {}: write a table of lists, as in grid: {micro_batch: [1, 2]}"),
        ("[1]", "f.membudget.yaml:4: grid: [1]: write a table of lists"),
        ("{gib: 3}", "f.membudget.yaml:4: grid: gib: 3: write a list of values, as in gib: [1, 2]"),
        ("{gib: []}", "f.membudget.yaml:4: grid: gib: []: write a list of values"),
        ("{gibb: [1]}", "f.membudget.yaml:4: grid: there is no field gibb; did you mean gib?"),
        ("{optimizer.nam: [a]}", "grid: there is no field nam in optimizer; did you mean name?"),
        ("{gib.x: [1]}", "grid: gib.x: gib has no fields; write that alone"),
        ("{name: [b]}", "grid: name cannot vary"),
        ("{grid: [b]}", "grid: grid cannot vary"),
        ("{'gib, gpu': [1]}", "grid: gib, gpu: 1: write a list of 2 values, one a field"),
        ("{'gib, gpu': [[1, T4], [2]]}", "grid: gib, gpu: [2]: write a list of 2 values, one a field"),
        ("{gib: [1], 'gpu, gib': [[T4, 1]]}", "grid: gib is there twice; leave one of them out"),
        (
            f"{{micro_batch: {list(range(101))}, sequence: {list(range(101))}}}",
            "grid: these are 10,201 tests; write a grid of at most 10,000",
        ),
    ],
)
def test_a_grid_that_cannot_be_worked_out_is_one_test_with_a_mistake(folder, grid, told):
    points = folder.points(budget(grid))

    assert list(points) == ["a"]
    assert any(told in line for line in points["a"].mistakes)
