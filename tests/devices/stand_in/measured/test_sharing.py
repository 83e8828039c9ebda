"""Two processes of pytest-xdist that measure on one card, and test files that use it on import."""

import pytest

pytestmark = pytest.mark.slow

MIB = 2**20

BODIES = """
    import os
    import time
    from pathlib import Path
    import pytest

    def hold():
        import torch
        kept = torch.empty(64 * 2**20, dtype=torch.uint8, device="cuda")
        if "CUDA_VISIBLE_DEVICES" in os.environ:  # not in a worker for estimates
            place = Path(os.environ["MEMBUDGET_TEST_FOLDER"], "in-use")
            place.mkdir()  # raises where the other test is at it
            time.sleep(3)
            place.rmdir()
            place.with_name(os.environ["PYTEST_XDIST_WORKER"]).touch()

    @pytest.mark.mem_budget(gib=1)
    def test_one():
        hold()

    @pytest.mark.mem_budget(gib=1)
    def test_other():
        hold()
    """


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("shared")


@pytest.fixture(scope="module")
def shared(measured_session, folder):
    pytest.importorskip("xdist")
    return measured_session({"test_budgets.py": BODIES}, "-n2", env={"MEMBUDGET_TEST_FOLDER": str(folder)})


@pytest.mark.parametrize("name", ["test_one", "test_other"])
def test_processes_measure_on_one_card_one_after_the_other(shared, folder, name):
    (measured,) = shared.rows[name]["measurements"]

    assert shared.outcomes[name] == "passed", shared.out
    assert measured["peak"]["allocated"] == 64 * MIB
    assert {path.name for path in folder.iterdir()} == {"gw0", "gw1"}


ON_IMPORT = """
    import pytest
    import torch

    TABLE = torch.empty(32 * 2**20, dtype=torch.uint8, device="cuda")

    @pytest.mark.mem_budget(gib=1)
    def test_next_to_the_table():
        kept = torch.empty(64 * 2**20, dtype=torch.uint8, device="cuda")

    @pytest.mark.mem_budget(gib=1)
    def test_next_to_the_table_again():
        kept = torch.empty(96 * 2**20, dtype=torch.uint8, device="cuda")
    """


@pytest.fixture(scope="module")
def imported(measured_session):
    return measured_session({"test_budgets.py": ON_IMPORT})


@pytest.mark.parametrize(
    ("name", "own"), [("test_next_to_the_table", 64), ("test_next_to_the_table_again", 96)]
)
def test_what_an_import_holds_is_measured_with_every_test(imported, name, own):
    row = imported.rows[name]
    (estimate,), (measured,) = row["estimates"], row["measurements"]

    assert imported.outcomes[name] == "passed", imported.out
    assert measured["peak"] == estimate["peak"]
    assert measured["peak"]["allocated"] == (32 + own) * MIB
    assert measured["components"] == estimate["components"]
