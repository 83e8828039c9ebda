"""What a session's estimates are made on: header and report name it."""

import os

from pytest_membudget.devices.torch_build.installed import workers_torch

FILES = {
    "test_budgets.py": """
        import pytest
        from holding import hold

        @pytest.mark.mem_budget(gib=1)
        def test_half(request):
            hold(0.5)
        """
}


def test_header_and_report_name_the_stand_in_and_the_torch_of_workers(session_of):
    run = session_of(FILES, "--membudget")
    (header,) = [line for line in run.lines if line.startswith("membudget: estimates on a ")]
    version = workers_torch(os.environ).version

    assert header.startswith("membudget: estimates on a stand-in H100-80GB ")
    assert f"by the code of torch {version}" in header
    assert run.report["torch"]["version"] == version
    assert run.outcomes == {"test_half": "passed"}, run.out
    (figure,) = run.rows["test_half"]["estimates"]
    assert (figure["device"], figure["peak"]["allocated_bytes"]) == ("stand-in", 2**29)
