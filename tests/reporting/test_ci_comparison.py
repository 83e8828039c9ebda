"""The CI pieces on a pull request of a real repository: what they compare, report and comment.

The repository's server is a folder; pytest, git and ``membudget`` are the real ones, ``gh`` is not. The
budgets are scenarios by formulas, which need no torch.
"""

import json
import os
import shlex
import subprocess
import sys

import pytest

from tests import repositories
from tests.reporting.ci_steps import (
    ACTION,
    BASH,
    COMMENT,
    GITLAB,
    HOOKS,
    PRE_COMMIT,
    read,
    step,
    write_program,
)

#: The second job is over its budget, in the base too.
JOBS = """
defaults:
  implementation: formulas
  model: {config: {model_type: llama, hidden_size: 64, intermediate_size: 128, num_hidden_layers: 4,
    num_attention_heads: 4, vocab_size: 1000}}
  sequence: 128
budgets:
  - {name: training, gib: 1, micro_batch: MICRO_BATCH}
  - {name: too-large, gib: 0.001}
"""


class Pull:
    """A pull request, checked out as actions/checkout does."""

    def __init__(self, folder):
        self.folder = folder
        self.work = folder / "work"
        self.base = ""
        self._env = {
            **os.environ,
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
            "GITHUB_OUTPUT": str(folder / "output"), "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
            "GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "ada/project", "COLUMNS": "80",
        }  # fmt: skip

    def git(self, *arguments, folder=None):
        return repositories.git(folder or self.work, *arguments)

    def run(self, script, interpreter=BASH, **env):
        path = self.folder / "script.sh"
        path.write_text(script)
        return subprocess.run(
            [*interpreter, str(path)],
            cwd=self.work, env={**self._env, **env}, capture_output=True, text=True, timeout=120,
        )  # fmt: skip

    def action(self, compare="base"):
        """Run the action: pytest's exit status, and the output."""
        env = {
            "ARGUMENTS": "tests", "REPORT": "membudget", "FOLDER": ".", "COMPARE": compare, "BASE": self.base,
        }  # fmt: skip
        ran = self.run(step(ACTION, "Estimate")["run"], **env)
        reported = self.run(step(ACTION, "Report")["run"], **env)
        status = (self.folder / "output").read_text().partition("status=")[2].split()[0]
        return int(status), ran.stdout + ran.stderr + reported.stdout

    def comment(self):
        """Run the workflow that comments: the comment, None for none."""
        env = {
            "REPOSITORY": "ada/project", "HEAD_OWNER": "bob", "HEAD_BRANCH": "feature", "HEAD_SHA": "x",
            "MARKER": "default", "GITHUB_SHA": "f" * 40,
        }  # fmt: skip
        done = self.run(step(COMMENT, "Comment")["run"], **env)
        assert done.returncode == 0, done.stderr
        sent = self.folder / "sent.json"
        return json.loads(sent.read_text())["body"] if sent.exists() else None


@pytest.fixture(scope="module")
def pull(tmp_path_factory, cache_in, warm_processes):
    """``pull(files, depth)`` is a pull request that writes ``files``."""
    kept = cache_in(tmp_path_factory.mktemp("kept"))

    def made(files, depth=None):
        tmp_path = tmp_path_factory.mktemp("pull")
        found = Pull(tmp_path)
        write_programs(tmp_path / "bin", {**os.environ, **kept})
        server, author = tmp_path / "server.git", tmp_path / "author"
        (author / "tests").mkdir(parents=True)
        found.git("init", "--bare", str(server), folder=tmp_path)
        found.git("init", folder=author)
        (author / "tests/jobs.membudget.yaml").write_text(JOBS.replace("MICRO_BATCH", "1"))
        (author / "pyproject.toml").write_text("[tool.membudget]\nmax_growth = '1%'\n")
        found.git("add", ".", folder=author)
        found.git("commit", "-m", "base", folder=author)
        found.base = found.git("rev-parse", "HEAD", folder=author)
        found.git("checkout", "-b", "feature", folder=author)
        for name, text in files.items():
            (author / name).write_text(text)
        found.git("add", ".", folder=author)
        found.git("commit", "-m", "feature", folder=author)
        # GitHub makes the merge commit, and checks that out
        found.git("checkout", "main", folder=author)
        found.git("merge", "--no-ff", "-m", "merge", "feature", folder=author)
        found.git(
            "push", str(server), "HEAD:refs/pull/7/merge", f"{found.base}:refs/heads/main", folder=author
        )
        found.work.mkdir()
        found.git("init")
        found.git("remote", "add", "origin", server.as_uri())
        deep = [f"--depth={depth}"] if depth else []
        found.git("fetch", *deep, "origin", "refs/pull/7/merge:refs/remotes/pull/7/merge")
        if not depth:
            found.git("fetch", "origin")
        found.git("checkout", "pull/7/merge")
        return found

    return made


def write_programs(folder, environment):
    """Programs of a runner. Sessions have only the variables that a copy of a process may have."""
    folder.mkdir()
    python = shlex.quote(sys.executable)
    alone = shlex.join(["env", "-i", *(f"{name}={value}" for name, value in environment.items())])
    write_program(
        folder / "python", f'if [ "$2" = pytest ]; then exec {alone} {python} "$@"; fi; exec {python} "$@"'
    )
    write_program(folder / "membudget", f'exec {python} -m pytest_membudget "$@"')
    write_program(
        folder / "gh",
        'case " $* " in *"/comments --jq "*) ;; *"/pulls "*) echo 7;; *) cp body.json ../sent.json;; esac',
    )


GROWS = {"tests/jobs.membudget.yaml": JOBS.replace("MICRO_BATCH", "4")}
CHANGES_NOTHING = {"README.md": "read me\n"}


@pytest.fixture(scope="module")
def grown(pull):
    return pull(GROWS)


@pytest.fixture(scope="module")
def same(pull):
    return pull(CHANGES_NOTHING)


def test_a_pull_request_that_grows_fails_and_is_commented(grown):
    status, out = grown.action()
    comment = grown.comment()

    assert status == 1, out
    assert "grown: takes" in out
    assert "::error file=tests/jobs.membudget.yaml" in out
    assert "1 grown too much" in comment
    assert f"Compared with `{grown.base}`" in comment
    head = grown.git("rev-parse", "HEAD")
    assert f"(https://github.com/ada/project/blob/{head}/tests/jobs.membudget.yaml#L" in comment


def test_a_pull_request_that_changes_nothing_passes_and_gets_no_comment(same):
    status, out = same.action()

    assert status == 0, out
    assert "1 over at the base too" in out
    assert same.comment() is None


def test_a_shallow_checkout_says_what_to_fetch(pull):
    status, out = pull(CHANGES_NOTHING, depth=1).action()

    assert status == 4
    assert "fetch-depth: 0 for actions/checkout" in out


def gitlab(pull, **env):
    job = read(GITLAB)["memory budgets"]
    return pull.run("\n".join(job["script"]), ["sh", "-e"], MEMBUDGET_TESTS="tests", **env)


def test_gitlab_compares_a_merge_request_with_its_base(grown):
    done = gitlab(grown, CI_MERGE_REQUEST_DIFF_BASE_SHA=grown.base)

    assert done.returncode == 1
    assert "1 grown, 1 over at the base too" in done.stdout, done.stdout


def test_the_hook_compares_with_the_branch_of_the_server(grown, same):
    [hook] = read(HOOKS)
    [configured] = read(PRE_COMMIT)["repos"][0]["hooks"]
    command = shlex.join([*shlex.split(hook["entry"]), *configured["args"]])

    for pulled, status in ((grown, 1), (same, 0)):
        done = pulled.run(command)
        assert done.returncode == status, done.stdout
        assert "1 over at the base too" in done.stdout
