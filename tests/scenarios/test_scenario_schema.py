"""The one description of fields: JSON Schema and docs say the same, and no field of a job is without one."""

import dataclasses
from pathlib import Path

import pytest

from pytest_membudget.budgets.budget import ARGUMENTS
from pytest_membudget.recipes.known import READS, TORCH_NAMES
from pytest_membudget.scenarios import job as jobs
from pytest_membudget.scenarios import schema
from pytest_membudget.scenarios.job import OPTIMIZERS
from pytest_membudget.scenarios.schema import SCRIPT
from tests.json_schemas import scenario_schema
from tests.scenarios.field_tables import field_tables

ROOT = Path(__file__).parents[2]

#: Fields of a job's parts that scenarios have under another name, or that follow from others.
ELSEWHERE = {
    jobs.Job: {
        "generation": "generate",
        "adapter": "method",
        "degrees": "tensor_parallel_degree",
        "teacher_type": "teacher",
    },
}
TABLES = [
    (jobs.Optimizer, schema.OPTIMIZER),
    (jobs.Precision, schema.PRECISION),
    (jobs.Checkpointing, schema.CHECKPOINTING),
    (jobs.Loss, schema.LOSS),
    (jobs.DataParallel, schema.DATA_PARALLEL),
    (jobs.Generation, schema.GENERATE),
    (jobs.Adapter, schema.METHOD),
    (jobs.Degrees, schema.SCENARIO),
    (jobs.Job, schema.SCENARIO),
]


@pytest.mark.parametrize(("description", "table"), TABLES, ids=lambda each: getattr(each, "__name__", ""))
def test_every_field_of_a_job_can_be_written(description, table):
    names = {field.name for field in dataclasses.fields(description)}
    renamed = ELSEWHERE.get(description, {})

    assert names - set(table.by_name) == set(renamed)
    assert set(renamed.values()) <= set(table.by_name)


@pytest.mark.parametrize(("description", "table"), TABLES[:6], ids=lambda each: getattr(each, "__name__", ""))
def test_a_table_has_no_field_that_a_job_lacks(description, table):
    assert set(table.by_name) <= {field.name for field in dataclasses.fields(description)}


def test_every_optimizer_that_a_library_has_can_be_written():
    assert set(TORCH_NAMES) == set(OPTIMIZERS)


@pytest.mark.parametrize("implementation", READS)
def test_what_a_recipe_reads_are_fields(implementation):
    for name in READS[implementation]:
        table, _, inner = name.partition(".")
        kind = schema.SCENARIO.by_name[table].kind
        assert not inner or inner in kind.by_name, name


def test_every_field_says_what_it_is():
    for name, field in scenario_schema()["definitions"].items():
        assert field["description"], name


# The docs


def own_fields(fields):
    return tuple(one for one in fields if one.name not in ARGUMENTS.by_name)


def test_the_docs_have_the_tables_of_all_fields():
    page = (ROOT / "docs" / "scenarios.md").read_text(encoding="utf-8")
    # what the marker has too is in the reference
    groups = {title: own_fields(fields) for title, fields in schema.GROUPS.items()}

    assert field_tables(groups) in page, "put the output of tests.scenarios.field_tables.field_tables into it"
    own = own_fields(SCRIPT.fields)
    page = (ROOT / "docs" / "scripts.md").read_text(encoding="utf-8")
    assert field_tables({"": own}).lstrip("# \n") in page
