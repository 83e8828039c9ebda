"""The files for CI, their steps, and programs in place of those that a runner has."""

from pathlib import Path

import yaml

import pytest_membudget

ROOT = Path(__file__).parents[2]
SOURCES = Path(pytest_membudget.__file__).parent.parent
ACTION = ROOT / "action.yml"
BUDGETS = ROOT / "examples/ci/github-budgets.yml"
COMMENT = ROOT / "examples/ci/github-comment.yml"
GITLAB = ROOT / "examples/ci/gitlab.yml"
HOOKS = ROOT / ".pre-commit-hooks.yaml"
PRE_COMMIT = ROOT / "examples/ci/pre-commit-config.yaml"

#: As GitHub runs `shell: bash`, and a plain `run:` with it named.
BASH = ["bash", "--noprofile", "--norc", "-eo", "pipefail"]


def read(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def steps_of(path):
    content = read(path)
    if "runs" in content:
        return content["runs"]["steps"]
    return [step for job in content["jobs"].values() for step in job["steps"]]


def step(path, name):
    return next(step for step in steps_of(path) if step.get("name") == name)


def write_program(path, text):
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)
