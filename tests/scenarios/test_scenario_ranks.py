"""Of several ranks' figures the one that takes most decides, whichever it is."""

import textwrap

import pytest

from pytest_membudget.scenarios.estimating import AnalyticEstimator
from tests.scenarios.conftest import scenario_test

#: Two stages of two layers. The last one has the logits: 4,096 x 256,000 numbers of fp32 are 3.9 GiB.
PIPELINE = """
    model:
      config: {model_type: llama, hidden_size: 256, intermediate_size: 1024, num_hidden_layers: 4,
        num_attention_heads: 4, num_key_value_heads: 4, vocab_size: 256000}
    sequence: 4096
    gpus: 2
    pipeline_parallel_degree: 2
    """


@pytest.fixture
def estimated(folder):
    def estimate(fields):
        body = textwrap.indent(textwrap.dedent(PIPELINE).strip("\n") + f"\n{fields}", "    ")
        point = folder.points(f"budgets:\n  - name: one\n{body}\n")["one"]
        return AnalyticEstimator({"gpu": None, "metric": "allocated"}).estimate(
            scenario_test(point, folder.file)
        )

    return estimate


def test_the_last_stage_decides_where_it_takes_most(estimated):
    found = estimated("gib: 3.5")
    first, last = found.estimates

    assert first.peak_bytes < 3.5 * 2**30 < last.peak_bytes
    assert (found.verdict, found.rank) == ("over", 1)


def test_all_stages_have_to_be_within(estimated):
    assert estimated("gib: 40").verdict == "within"
