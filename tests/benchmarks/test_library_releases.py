"""Releases of a library are run one after another, and a run that was ended goes on where it was."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks import library_releases
from benchmarks.library_releases import main


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The modules that were run, each with its last argument; sessions end with 1 and write a report."""
    done: list[tuple[str, ...]] = []

    def run(module: str, *arguments: str, **environment: str) -> int:
        done.append((module, arguments[-1].rpartition("=")[2]))
        if module == "pytest":
            report = Path(done[-1][1]) / "report.json"
            report.parent.mkdir(parents=True)
            report.write_text("{}", encoding="utf-8")
        return 1

    monkeypatch.setattr(library_releases, "_run", run)
    monkeypatch.setattr(library_releases, "install", lambda folder, requirements: None)
    return done


def test_each_release_is_compared_with_the_one_before(runs: Any, tmp_path: Path) -> None:
    status = main(["timm", "1.0.1", "1.0.2", "--to", str(tmp_path)])

    assert status == 1
    assert [module for module, _ in runs] == ["pytest", "pytest", "pytest_membudget"]
    assert runs[-1] == ("pytest_membudget", str(tmp_path / "timm-1.0.2" / "report.json"))


def test_a_release_that_was_run_is_not_run_again(runs: Any, tmp_path: Path) -> None:
    main(["timm", "1.0.1", "--to", str(tmp_path)])
    del runs[:]

    assert main(["timm", "1.0.1", "1.0.2", "--to", str(tmp_path)]) == 1
    assert [module for module, _ in runs] == ["pytest", "pytest_membudget"]


def test_one_that_was_interrupted_is(runs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finished = library_releases._run
    monkeypatch.setattr(library_releases, "_run", lambda *given, **others: 2 * finished(*given, **others))

    assert main(["timm", "1.0.1", "--to", str(tmp_path)]) == 2
    assert not (tmp_path / "timm-1.0.1" / "report.json").exists()
