"""``lift_cuda_skips``: guards that skip without CUDA are evaluated where CUDA is, others skip as ever."""

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
    "test_guards.py": """
        import unittest

        import pytest
        import torch
        from holding import hold

        has_cuda = torch.cuda.is_available()

        @pytest.mark.skipif(not has_cuda, reason="no CUDA")
        def test_by_mark():
            kept = hold(0.5)

        @pytest.mark.skipif("not torch.cuda.is_available()")
        def test_by_text():
            kept = hold(0.5)

        @pytest.mark.mem_budget(gpus=2)
        @pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
        def test_by_count():
            kept = hold(0.5)

        @unittest.skipUnless(has_cuda, "no CUDA")
        def test_by_unittest():
            kept = hold(0.5)

        @unittest.skipUnless(has_cuda, "no CUDA")
        class TestCase(unittest.TestCase):
            def test_by_case(self):
                self.kept = hold(0.5)

        def test_by_conftest():
            kept = hold(0.5)

        def test_by_setup():
            kept = hold(0.5)

        def test_by_body():
            if not torch.cuda.is_available():
                pytest.skip("no CUDA")
            kept = hold(0.5)

        @pytest.mark.skip(reason="broken")
        def test_broken():
            kept = hold(0.5)

        @pytest.mark.skipif(has_cuda, reason="of the CPU")
        def test_of_the_cpu():
            kept = hold(0.5)

        def test_without_cuda():
            assert has_cuda
        """,
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
