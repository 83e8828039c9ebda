"""What prepares a release, and the workflow that publishes it."""

import datetime
import runpy
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
RELEASE = runpy.run_path(str(ROOT / ".ci" / "release.py"))
INIT = (ROOT / "src" / "pytest_membudget" / "__init__.py").read_text(encoding="utf-8")
CHANGES = "# Changelog\n\n## Unreleased\n\n- new\n\n## 0.1.0 - 2026-01-01\n\n- old\n"


def test_the_version_is_set_where_the_package_has_it():
    changed = RELEASE["with_version"](INIT, "7.8.9rc1")
    differing = [new for new, old in zip(changed.splitlines(), INIT.splitlines(), strict=True) if new != old]

    assert differing == ['__version__ = "7.8.9rc1"']


@pytest.mark.parametrize("version", ["1", "v1.2.3", "1.2.3.dev0", "--help"])
def test_what_is_no_version_is_refused(version):
    with pytest.raises(SystemExit, match="is no version such as"):
        RELEASE["with_version"](INIT, version)


def test_entries_move_under_the_version_and_its_day():
    moved = RELEASE["with_release"](CHANGES, "0.2.0", datetime.date(2026, 11, 26))

    assert moved == (
        "# Changelog\n\n## Unreleased\n\n## 0.2.0 - 2026-11-26\n\n- new\n\n## 0.1.0 - 2026-01-01\n\n- old\n"
    )
    with pytest.raises(SystemExit, match="nothing under Unreleased"):
        RELEASE["with_release"](moved, "0.3.0", datetime.date(2026, 12, 1))


def test_only_the_job_that_publishes_may_ask_for_a_token_and_every_action_is_pinned():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8"))
    jobs = workflow["jobs"]
    uses = [step["uses"] for job in jobs.values() for step in job["steps"] if "uses" in step]

    assert workflow["permissions"] == {"contents": "read"}
    assert [name for name, job in jobs.items() if "permissions" in job] == ["publish"]
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert jobs["publish"]["needs"] == "build"
    assert all(len(action.partition("@")[2]) == 40 for action in uses)
