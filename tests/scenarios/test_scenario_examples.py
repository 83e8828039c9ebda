"""The example's budgets can be read, and are of the models that they name."""

from pathlib import Path

import pytest

from pytest_membudget.formulas.decoder import parameter_count
from pytest_membudget.formulas.sources import decoder_of
from pytest_membudget.scenarios.grid import points_of
from pytest_membudget.scenarios.jobs import read_scenario
from pytest_membudget.scenarios.reading import read_entries

FILE = Path(__file__).parents[2] / "examples" / "budgets.membudget.yaml"
POINTS = {point.name: point for entry in read_entries(FILE, FILE.name) for point in points_of(entry)}
SETTINGS = {"gpu": None, "metric": "allocated"}

#: parameters by the safetensors indices that the models' cards on huggingface.co show
PUBLISHED = {
    "llama-3-8b": 8_030_261_248,
    "llama-3-70b": 70_553_706_496,
    "llama-3.2-3b": 3_212_749_824,
    "deepseek-v3": 671_026_419_200,  # without its MTP module; 671B in arXiv:2412.19437
}


@pytest.fixture(autouse=True)
def _every_library_is_there(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())


@pytest.mark.parametrize("point", POINTS.values(), ids=list(POINTS))
def test_the_configurations_are_the_published_models(point):
    job = read_scenario(point, FILE.parent, SETTINGS).job

    for model in filter(None, (job.model, job.teacher)):
        assert parameter_count(decoder_of(model)) == PUBLISHED[model.name]
