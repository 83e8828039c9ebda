"""``membudget fit``: what is printed and written, and the exit status."""

import sys

import pytest

from pytest_membudget.commands import sessions
from pytest_membudget.commands.fit import csv_text, result_lines
from pytest_membudget.commands.fit_search import FAILS, FITS, TOO_LARGE, Tried
from pytest_membudget.commands.main import main

GIB = 2**30


def tried(*outcomes, reason=""):
    sizes = {FITS: GIB, TOO_LARGE: None, FAILS: None}
    return {
        value: Tried(value, outcome, sizes[outcome] and value * GIB, sizes[outcome] and value * GIB, reason)
        for value, outcome in enumerate(outcomes, start=1)
    }


@pytest.mark.parametrize(
    ("outcomes", "verdict"),
    [
        ([FITS, TOO_LARGE], "b=1 is the largest that fits"),
        ([FITS, FITS], "b=2 fits, and no value above --max=2 was tried"),
        ([TOO_LARGE], "b=1 does not fit, and no smaller value was tried"),
        ([FAILS], "b=1 the test fails, and no smaller value was tried"),
        ([FITS, FAILS], "b=1 is the largest that fits; memory is not the limit: with 2 the test fails"),
        (
            [FITS, TOO_LARGE, FITS, TOO_LARGE],
            "b=3 is the largest that fits; not every smaller value fits: 2",
        ),
    ],
)
def test_the_verdict_says_what_was_found_and_what_was_not(outcomes, verdict):
    assert result_lines("b", "RTX-4090", tried(*outcomes), 2, 80)[1].endswith(f" CUDA context): {verdict}")


def test_every_value_has_its_figure_and_those_that_fit_a_bar():
    *_, fits, too_large = result_lines(
        "b", "RTX-4090", tried(FITS, TOO_LARGE, reason="out of memory; more"), 2, 80
    )

    assert fits.split() == ["1", "1.00", "GiB", "1.00", "GiB", "##"]  # 40 x 1 / 23.15
    assert too_large.split(maxsplit=1) == ["2", "does not fit: out of memory"]


def test_csv_has_a_row_for_each_value():
    assert csv_text("b", {"RTX-4090": tried(FITS, TOO_LARGE)}).splitlines() == [
        "gpu,b,outcome,allocated_bytes,reserved_bytes,reason",
        "RTX-4090,1,fits,1073741824,1073741824,",
        "RTX-4090,2,too large,,,",
    ]


def test_a_session_without_tests_is_refused_with_pytests_words(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    assert main(["fit", "t.py::t", "--vary=b", "--gpu=H100-80GB"]) == 2
    message = " ".join(capsys.readouterr().err.split())
    assert "estimated no test: ERROR: file or directory not found: t.py::t" in message


@pytest.fixture
def here(warm_processes, tmp_path, monkeypatch):
    """A project's folder, in which sessions run."""
    monkeypatch.setattr(sessions, "_PYTEST", (sys.executable, *sessions._PYTEST[1:]))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_largest_value_of_a_fixture_that_fits_a_card(here, monkeypatch, capsys):
    # 16 GiB a sample: one of 23.15 GiB
    (here / "test_fit.py").write_text(
        "import pytest\nimport torch\n\n@pytest.fixture\ndef samples():\n    return 7\n\n"
        "def test_other(samples):\n    pass\n\n"
        "def test_step(samples):\n    torch.empty(samples, 2**34, dtype=torch.uint8, device='cuda')\n"
    )
    monkeypatch.setenv("COLUMNS", "120")

    status = main(["fit", "test_fit.py::test_step", "--vary=samples", "--gpu=rtx 4090", "--max=2",
                   "--out=curve.csv", "--", "-p", "no:cacheprovider"])  # fmt: skip
    out = capsys.readouterr().out

    assert status == 0, out
    assert "RTX-4090 (23.15 GiB without the CUDA context): samples=1 is the largest that fits" in out
    rows = (here / "curve.csv").read_text().splitlines()
    assert rows[1].startswith(f"RTX-4090,1,fits,{16 * GIB},{16 * GIB},")
    assert rows[2].startswith("RTX-4090,2,too large,,")


def test_the_largest_value_of_an_argument_of_a_script_that_fits_a_card(here, capsys):
    (here / "train.py").write_text(
        "import sys\n\nimport torch\n\n"
        "torch.empty(int(sys.argv[2]), 2**34, dtype=torch.uint8, device='cuda')\n"
    )
    (here / "a.membudget.yaml").write_text(
        "budgets:\n  - {name: other, gib: 1, script: train.py --samples 1}\n"
        "  - {name: train, gib: 1, script: train.py --samples 7}\n"
    )

    status = main(["fit", "a.membudget.yaml::train", "--vary=--samples", "--gpu=rtx 4090", "--max=2"])
    out = capsys.readouterr().out

    assert status == 0, out
    assert "RTX-4090 (23.15 GiB without the CUDA context): --samples=1 is the largest that fits" in out
