"""``lift_cuda_skips``: guards that skip without CUDA are evaluated where CUDA is, others skip as ever."""

from tests.plugin.bodies import source

HEAD = """\
import unittest

import pytest
import torch
from holding import hold

has_cuda = torch.cuda.is_available()

def unmarked(test):
    return test

@unittest.skipUnless(has_cuda, "no CUDA")
class TestCase(unittest.TestCase):
    def test_by_case(self):
        self.kept = hold(0.5)

"""
#: Guards that are lifted, and those that are none against missing CUDA.
MARKS = {
    "by_mark": "pytest.mark.skipif(not has_cuda, reason='no CUDA')",
    "by_text": "pytest.mark.skipif('not torch.cuda.is_available()')",
    "by_count": (
        "pytest.mark.mem_budget(gpus=2)\n"
        "@pytest.mark.skipif(torch.cuda.device_count() < 2, reason='needs two GPUs')"
    ),
    "by_unittest": "unittest.skipUnless(has_cuda, 'no CUDA')",
    "broken": "pytest.mark.skip(reason='broken')",
    "of_the_cpu": "pytest.mark.skipif(has_cuda, reason='of the CPU')",
}
FILES = {
    "pyproject.toml": "[tool.membudget]\nlift_cuda_skips = true\n",
    "conftest.py": """
        import pytest
        import torch

        def pytest_collection_modifyitems(items):
            for item in items:
                if "by_conftest" in item.name and not torch.cuda.is_available():
                    item.add_marker(pytest.mark.skip(reason="no CUDA"))

        def pytest_runtest_setup(item):
            if "by_setup" in item.name and not torch.cuda.is_available():
                pytest.skip("no CUDA")
        """,
    "test_guards.py": source(
        dict.fromkeys([*MARKS, "by_conftest", "by_setup"], "kept = hold(0.5)")
        | {
            "by_body": "if not torch.cuda.is_available():\n    pytest.skip('no CUDA')\nkept = hold(0.5)",
            "without_cuda": "assert has_cuda",
        },
        HEAD,
        MARKS,
        budget="unmarked",
    ),
}
ARGS = ("--membudget=all",)


def test_guards_against_missing_cuda_skip_nothing(run):
    lifted = {
        f"test_by_{name}"
        for name in ("mark", "text", "count", "unittest", "case", "conftest", "setup", "body")
    }

    assert {name: run.allocated(name) for name in run.rows if name.startswith("test_by")} == dict.fromkeys(
        lifted, 2**29
    )


def test_other_skips_are_in_force(run):
    reasons = {name: run.rows[name]["reason"] for name in ("test_broken", "test_of_the_cpu")}

    assert reasons == {
        "test_broken": "skipped on the stand-in: broken",
        "test_of_the_cpu": "skipped on the stand-in: of the CPU",
    }
    assert run.message("test_without_cuda") == "takes no GPU memory"
