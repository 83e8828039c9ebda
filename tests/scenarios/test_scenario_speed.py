"""A thousand budgets: read at once, and what several of them share reckoned once."""

import time

from pytest_membudget.scenarios import estimating
from pytest_membudget.scenarios.jobs import read_scenario
from tests.scenarios.conftest import scenario_test

SETTINGS = {"gpu": None, "metric": "allocated"}
MODEL = (
    "{config: {model_type: llama, hidden_size: 4096, intermediate_size: 14336, num_hidden_layers: 32, "
    "num_attention_heads: 32, num_key_value_heads: 8, vocab_size: 128256}}"
)
#: 1,000 tests of one entry, and 1,000 entries
GRID = f"""
budgets:
  - name: a
    gib: 1
    model: {MODEL}
    grid:
      micro_batch: {list(range(1, 11))}
      sequence: {list(range(512, 5632, 512))}
      checkpointing: [none, full]
      optimizer.implementation: [foreach, fused]
      gib: [10, 20, 40, 60, 80]
"""
SINGLE = f"defaults:\n  model: {MODEL}\nbudgets:\n" + "".join(
    f"  - {{name: a{n}, gib: {n + 1000}, micro_batch: {n % 2 + 1}, optimizer: adamw, checkpointing: full}}\n"
    for n in range(1000)
)


def seconds_of(call):
    """CPU seconds, for others run beside this."""
    began = time.process_time()
    call()
    return time.process_time() - began


def test_thousands_of_scenarios_are_read_in_a_fraction_of_a_second_each_thousand(folder):
    def read(text):
        for point in folder.points(text).values():
            read_scenario(point, folder.path, SETTINGS)

    assert seconds_of(lambda: read(SINGLE)) < 2  # 0.4 s on a slow core
    assert seconds_of(lambda: read(GRID)) < 4  # 2,000 of them


def test_a_job_is_computed_once_for_all_of_its_budgets(folder):
    points = list(folder.points(SINGLE).values())
    estimate = estimating.AnalyticEstimator(SETTINGS).estimate
    estimating._reports.cache_clear()

    seconds = seconds_of(lambda: [estimate(scenario_test(point, folder.file)) for point in points])

    assert estimating._reports.cache_info().misses == 2
    assert seconds < 5
