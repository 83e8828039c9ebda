"""Grids: a test for each combination, with ids that can be read and chosen."""

import pytest


def values_of(points, name):
    return {key: point.fields[name].plain if name in point.fields else None for key, point in points.items()}


def budget(grid, rest=""):
    return f"budgets:\n  - name: a\n    {rest}\n    grid: {grid}\n"


def test_a_budget_without_a_grid_is_one_test(folder):
    assert list(folder.points("budgets: [{name: a, gib: 1}]")) == ["a"]


def test_each_combination_is_a_test(folder):
    points = folder.points(budget("{micro_batch: [1, 2], sequence: [512, 1024]}"))

    assert list(points) == [
        "a[micro_batch=1-sequence=512]",
        "a[micro_batch=1-sequence=1024]",
        "a[micro_batch=2-sequence=512]",
        "a[micro_batch=2-sequence=1024]",
    ]
    assert list(values_of(points, "sequence").values()) == [512, 1024, 512, 1024]
    assert list(values_of(points, "micro_batch").values()) == [1, 1, 2, 2]
    assert all("grid" not in point.fields for point in points.values())


def test_fields_that_go_together_are_one_axis(folder):
    points = folder.points(budget("{'micro_batch, gib': [[1, 40], [2, 60]]}"))

    assert list(points) == ["a[micro_batch=1-gib=40]", "a[micro_batch=2-gib=60]"]
    assert list(values_of(points, "gib").values()) == [40, 60]


def test_a_field_of_a_table_varies_and_the_others_stay(folder):
    points = folder.points(
        budget("{optimizer.implementation: [foreach, fused]}", "optimizer: {name: adam, momentum: true}")
    )

    assert values_of(points, "optimizer") == {
        "a[implementation=foreach]": {"name": "adam", "momentum": True, "implementation": "foreach"},
        "a[implementation=fused]": {"name": "adam", "momentum": True, "implementation": "fused"},
    }


def test_the_short_form_of_a_table_is_kept_next_to_what_varies(folder):
    points = folder.points(budget("{optimizer.implementation: [fused]}", "optimizer: sgd"))

    assert values_of(points, "optimizer") == {
        "a[implementation=fused]": {"name": "sgd", "implementation": "fused"}
    }


def test_a_value_can_be_a_table_and_null_leaves_a_field_out(folder):
    points = folder.points(budget("{method: [full, {kind: lora, rank: 8}], gpu: [T4, null]}", "gpu: L4"))

    assert list(points) == [
        "a[method=full-gpu=T4]",
        "a[method=full-gpu=null]",
        "a[method=lora+8-gpu=T4]",
        "a[method=lora+8-gpu=null]",
    ]
    assert list(values_of(points, "gpu").values()) == ["T4", None, "T4", None]


def test_models_are_named_by_their_files(folder):
    points = folder.points(budget("{model: [configs/llama-3-8b.json, {config: ./qwen.json}]}"))

    assert list(points) == ["a[model=llama-3-8b]", "a[model=qwen]"]


def test_a_value_of_a_shape_varies(folder):
    points = folder.points(budget("{model.shape.layers: [1, 2]}", "model: {shape: {hidden: 8, layers: 9}}"))

    assert list(values_of(points, "model").values()) == [
        {"shape": {"hidden": 8, "layers": 1}},
        {"shape": {"hidden": 8, "layers": 2}},
    ]


def test_a_key_of_a_configuration_varies_where_it_is_written_out(folder):
    points = folder.points(
        budget("{model.config.num_hidden_layers: [1]}", "model: {config: {hidden_size: 8}}")
    )

    assert list(values_of(points, "model").values()) == [
        {"config": {"hidden_size": 8, "num_hidden_layers": 1}}
    ]


@pytest.mark.parametrize("model", ["a.json", "{config: a.json}"])
def test_a_key_of_a_file_does_not_vary(folder, model):
    [point] = folder.points(budget("{model.config.num_hidden_layers: [1]}", f"model: {model}")).values()

    assert "model.config names a file; write its content as a table" in point.mistakes[0]


def test_names_with_equal_ends_are_written_out(folder):
    points = folder.points(budget("{model.config: [a.json], teacher.config: [b.json]}"))

    assert list(points) == ["a[model.config=a-teacher.config=b]"]


def test_values_with_equal_texts_have_different_ids(folder):
    points = folder.points(budget("{model: [x/a.json, y/a.json]}"))

    assert list(points) == ["a[model=a]", "a[model=a']"]


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
