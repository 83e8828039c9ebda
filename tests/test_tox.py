"""What tox.ini runs is there: a file that was moved would be left out, and nobody would see it."""

import re
from configparser import ConfigParser
from pathlib import Path

ROOT = Path(__file__).parents[1]
CONFIG = ConfigParser(interpolation=None)
CONFIG.read(ROOT / "tox.ini", encoding="utf-8")


def test_the_core_of_the_tests_is_there():
    paths = re.findall(r"\btests/[\w/]+(?:\.py)?", CONFIG["testenv:cuda-smoke"]["commands"])

    assert len(paths) > 5
    for path in paths:
        assert (ROOT / path).exists(), path


def test_what_the_default_suite_leaves_out_is_a_part_of_ci():
    """``tests/test_ci_run.py`` sees that each part fails it."""
    assert '{posargs:-m "not slow" tests}' in CONFIG["testenv:tests"]["commands"]
    assert "{posargs:tests}" in CONFIG["testenv"]["commands"]
    assert "python -m tox -e tests -- -m slow tests" in (ROOT / ".ci" / "run").read_text().splitlines()


def test_the_programs_that_write_the_reports_are_there():
    commands = CONFIG["testenv:reports"]["commands"]
    modules = re.findall(r"-m ([\w.]+)", commands)

    assert len(modules) == 2
    for module in modules:
        path = ROOT / module.replace(".", "/")
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), module
    assert "python tests/mutation/mutate_gate.py --only-kept" in commands
    assert (ROOT / "tests/mutation/mutate_gate.py").exists()
