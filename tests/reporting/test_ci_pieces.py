"""The CI pieces: they parse, pin what they take, keep foreign data out of the shell, and their shell runs.

The shell runs as the runners run it, with stand-ins for pytest and gh; ``membudget`` is the real command.
"""

import json
import os
import re
import subprocess
import sys

import pytest

from tests.reporting.ci_steps import (
    ACTION,
    BASH,
    BUDGETS,
    COMMENT,
    GITLAB,
    HOOKS,
    PRE_COMMIT,
    SOURCES,
    read,
    step,
    steps_of,
    write_program,
)

# What they are


@pytest.mark.parametrize("path", [ACTION, BUDGETS, COMMENT], ids=lambda path: path.name)
def test_no_expression_stands_in_a_shell_script(path):
    scripts = [step["run"] for step in steps_of(path) if "run" in step]
    assert scripts
    assert not [script for script in scripts if "${{" in script]


@pytest.mark.parametrize("path", [ACTION, BUDGETS, COMMENT], ids=lambda path: path.name)
def test_every_action_is_pinned_to_a_commit_with_its_release(path):
    used = re.findall(r"uses: (\S+)(.*)", path.read_text())
    assert used
    for action, rest in used:
        if action != "OWNER/pytest-membudget@COMMIT":  # for the reader to fill in
            assert re.fullmatch(r"actions/[a-z/-]+@[0-9a-f]{40}", action)
            assert re.fullmatch(r" # v\d+\.\d+\.\d+", rest)


def test_what_runs_the_pull_request_may_only_read():
    workflow = read(BUDGETS)
    assert workflow["permissions"] == {"contents": "read"}
    assert "pull_request_target" not in BUDGETS.read_text()
    assert "secrets." not in BUDGETS.read_text()
    assert [
        step["with"]["persist-credentials"]
        for step in steps_of(BUDGETS)
        if "checkout" in step.get("uses", "")
    ] == [False]


def test_what_may_write_runs_nothing_of_the_pull_request():
    workflow = read(COMMENT)
    assert workflow["permissions"] == {}
    assert workflow["jobs"]["comment"]["permissions"] == {"actions": "read", "pull-requests": "write"}
    assert "checkout" not in "".join(step.get("uses", "") for step in steps_of(COMMENT))
    installs = [step["run"] for step in steps_of(COMMENT) if "pip install" in step.get("run", "")]
    assert installs == ["python -m pip install --no-deps pytest-membudget"]


def test_the_second_workflow_follows_the_first_and_takes_its_artifact():
    followed = read(COMMENT)[True]["workflow_run"]["workflows"]  # YAML 1.1 reads `on` as true
    assert followed == [read(BUDGETS)["name"]]
    [download] = [step for step in steps_of(COMMENT) if "download-artifact" in step.get("uses", "")]
    assert download["with"]["name"] == read(ACTION)["inputs"]["artifact"]["default"]


def test_inputs_that_are_used_are_there():
    used = set(re.findall(r"inputs\.([a-z-]+)", ACTION.read_text()))
    assert used == set(read(ACTION)["inputs"])
    given = [step["with"] for step in steps_of(BUDGETS) if "pytest-membudget" in step.get("uses", "")]
    assert set(given[0]) <= used


def test_the_hook_runs_the_gate_without_running_tests():
    [hook] = read(HOOKS)
    assert hook["id"] == "membudget"
    assert hook["language"] == "system"
    assert hook["entry"] == "python -m pytest --membudget --collect-only -q"
    assert hook["pass_filenames"] is False
    example = read(PRE_COMMIT)
    assert example["repos"][0]["hooks"][0]["id"] == hook["id"]


# What their shell does


@pytest.fixture
def shell(tmp_path):
    """``shell(script, env)`` runs a step's script in a folder with stand-ins first on the path."""
    programs = tmp_path / "bin"
    programs.mkdir()
    work = tmp_path / "work"
    work.mkdir()
    python = f'PYTHONPATH={SOURCES} exec {sys.executable} "$@"'
    write_program(programs / "membudget", f'set -- -m pytest_membudget "$@"\n{python}')
    write_program(
        programs / "python",
        'if [ "$1 $2" = "-m pytest" ]; then\n'
        '  printf "%s\\n" "$@" > ../pytest.txt\n'
        "  if [ -f ../made.json ]; then mkdir -p membudget; cp ../made.json membudget/report.json; fi\n"
        '  exit "$(cat ../status 2>/dev/null || echo 0)"\n'
        f"fi\n{python}",
    )

    def run(script, env=None, folder=work, interpreter=BASH):
        (tmp_path / "script.sh").write_text(script)
        variables = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "GITHUB_OUTPUT": str(tmp_path / "output"),
            "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        }
        return subprocess.run(
            [*interpreter, str(tmp_path / "script.sh")],
            cwd=folder, env={**variables, **(env or {})}, capture_output=True, text=True, timeout=60,
        )  # fmt: skip

    run.folder = tmp_path
    run.work = work
    return run


def outputs(shell):
    path = shell.folder / "output"
    return dict(line.split("=", 1) for line in path.read_text().splitlines()) if path.exists() else {}


@pytest.fixture
def action(shell):
    """``action(report, status)`` runs the action's steps: status, output and what it wrote."""

    def run(report, status=0, arguments="tests -k llama", allow_empty="false"):
        (shell.folder / "status").write_text(str(status))
        if report is not None:
            (shell.folder / "made.json").write_text(json.dumps(report))
        env = {"REPORT": "membudget", "ARGUMENTS": arguments, "FOLDER": ".", "ALLOW_EMPTY": allow_empty}
        done = shell(step(ACTION, "Estimate")["run"], env)
        assert done.returncode == 0, done.stderr
        report_done = shell(step(ACTION, "Report")["run"], env)
        gate = shell(step(ACTION, "Gate")["run"], {**env, "STATUS": outputs(shell)["status"]})
        return gate.returncode, report_done.stdout + gate.stdout, report_done

    return run


def test_the_action_passes_arguments_as_words(action, shell, raw, row):
    action(raw(row()), arguments="tests -k a;touch$IFS../owned $(touch ../owned) *")
    assert (shell.folder / "pytest.txt").read_text().split("\n")[2:] == [
        "--membudget", "--membudget-report=membudget",
        "tests", "-k", "a;touch$IFS../owned", "$(touch", "../owned)", "*", "",
    ]  # fmt: skip
    assert not (shell.folder / "owned").exists()


def test_the_action_is_green_where_the_budgets_hold(action, shell, raw, row):
    status, out, _ = action(raw(row()))
    assert (status, out) == (0, "")
    assert "### GPU memory: 1 test, none fails" in (shell.folder / "summary.md").read_text()
    assert outputs(shell)["path"] == "membudget/report.json"


def test_the_action_ends_as_pytest_did_and_annotates(action, shell, raw, over):
    status, out, _ = action(raw(over()), status=1)
    assert status == 1
    assert out.startswith("::error file=tests/test_memory.py,line=12,")
    assert "1 over budget" in (shell.folder / "summary.md").read_text()


def test_a_report_of_an_earlier_run_is_not_taken_for_this_one(action, shell, raw, row):
    (shell.work / "membudget").mkdir()
    (shell.work / "membudget/report.json").write_text(json.dumps(raw(row())))
    status, _, _ = action(None, status=4)
    assert status == 4
    assert not (shell.work / "membudget/report.json").exists()


def test_a_report_that_is_none_does_not_hide_the_gate(action, raw, row):
    status, _, reported = action(raw(row(verdict="fine")), status=1)
    assert reported.returncode == 2
    assert status == 1


@pytest.mark.parametrize(
    ("is_reported", "said"), [(False, "wrote no report.json"), (True, "nothing was checked")]
)
def test_the_action_refuses_a_run_without_a_report_or_that_checked_nothing(action, raw, is_reported, said):
    status, out, _ = action(raw() if is_reported else None)
    assert status == 1
    assert said in out


def test_unless_that_is_allowed(action, raw):
    assert action(raw(), allow_empty="true")[0] == 0


# Torch for workers


@pytest.fixture
def installs(shell):
    """``installs(prints, packages)`` runs the action's steps for torch: the calls of ``python``."""

    def run(prints, packages=""):
        write_program(
            shell.folder / "bin/python",
            f'printf "%s\\n" "$@" "" >> ../asked\ncase "$*" in *--print-folder) echo "{prints}";; esac',
        )
        for name in ("Find torch for workers", "Install torch for workers"):
            done = shell(step(ACTION, name)["run"], {"WITH": packages})
            assert done.returncode == 0, done.stderr
        return [call.split("\n") for call in (shell.folder / "asked").read_text().split("\n\n")[:-1]]

    return run


COMMAND = ["-m", "pytest_membudget", "install-torch"]


def test_torch_for_workers_is_cached_by_its_version_python_and_machine(installs, shell):
    folder = "/home/runner/.cache/pytest-membudget/torch/2.13.0-cp312-x86_64"
    calls = installs(folder, "triton  torchvision *")

    assert outputs(shell) == {
        "folder": folder,
        "key": "membudget-torch-2.13.0-cp312-x86_64-triton--torchvision--",
    }
    assert calls == [
        [*COMMAND, "--print-folder"],
        [*COMMAND, "--with=triton", "--with=torchvision", "--with=*"],
    ]


def test_a_job_with_a_cuda_build_installs_no_other(installs, shell):
    installs("")

    assert outputs(shell)["folder"] == ""
    steps = [one for one in steps_of(ACTION) if one["name"].endswith("torch for workers")][1:]
    assert len(steps) == 3
    assert all("steps.torch.outputs.folder != ''" in one["if"] for one in steps)


def test_torch_for_workers_is_there_before_the_estimates_and_saved_once():
    names = [one["name"] for one in steps_of(ACTION)]
    order = [f"{verb} torch for workers" for verb in ("Find", "Restore", "Install", "Save")]
    assert names[:6] == [*order, "Restore estimates", "Estimate"]
    assert "steps.restored.outputs.cache-hit != 'true'" in step(ACTION, order[3])["if"]
    assert step(ACTION, order[1])["with"] == step(ACTION, order[3])["with"]


def test_estimates_are_cached_without_torch():
    kept, saved = (step(ACTION, f"{verb} estimates")["with"]["path"] for verb in ("Restore", "Save"))
    folder = "${{ env.MEMBUDGET_CACHE_DIR || '~/.cache/pytest-membudget' }}"
    assert kept == saved == f"{folder}/*\n!{folder}/torch\n"


def test_gitlab_installs_torch_for_workers_after_the_packages_and_caches_it_apart():
    job = read(GITLAB)["memory budgets"]
    *before, last = job["before_script"]
    assert last == "membudget install-torch"
    assert "pytest-membudget" in before[-1]
    estimates, torch = (cache["paths"] for cache in job["cache"])
    assert torch == [".cache/pytest-membudget/torch"]
    assert not [path for path in estimates if path.startswith(torch[0])]


HEAD = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def comment(shell):
    """``comment(report, pulls, comments)`` runs the comment's script: what it asked gh for."""

    def run(report, pulls="7", comments="", branch="feature"):
        (shell.work / "membudget").mkdir(exist_ok=True)
        (shell.work / "membudget/report.json").write_text(json.dumps(report))
        write_program(
            shell.folder / "bin/gh",
            'printf "%s\\n" "$@" "" >> ../calls\n'
            'case " $* " in\n'
            f'  *"/comments --jq "*) printf "%s" "{comments}";;\n'
            f'  *"/pulls "*) printf "%s" "{pulls}";;\n'
            "  *) cp body.json ../sent.json;;\n"
            "esac",
        )
        env = {
            "GH_TOKEN": "t", "REPOSITORY": "ada/project", "HEAD_OWNER": "bob", "HEAD_BRANCH": branch,
            "HEAD_SHA": HEAD, "MARKER": "default",
        }  # fmt: skip
        done = shell(step(COMMENT, "Comment")["run"], env)
        calls = shell.folder / "calls"
        found = [call.split("\n") for call in calls.read_text().split("\n\n")[:-1]] if calls.exists() else []
        sent = shell.folder / "sent.json"
        return done, found, json.loads(sent.read_text())["body"] if sent.exists() else None

    return run


def test_a_new_comment_is_posted_to_the_pull_request_that_github_names(comment, raw, over):
    done, calls, body = comment(raw(over()))
    assert done.returncode == 0, done.stderr
    assert calls[0][:8] == [
        "api", "--method", "GET", "repos/ada/project/pulls", "-f", "state=open", "-f", "head=bob:feature",
    ]  # fmt: skip
    assert calls[-1][:4] == ["api", "--method", "POST", "repos/ada/project/issues/7/comments"]
    assert body.startswith("<!-- membudget:default -->\n\n### GPU memory: 1 over budget")


def test_a_comment_that_is_there_is_edited(comment, raw, row):
    _, calls, body = comment(raw(row()), comments="11\n12\n")
    assert calls[-1][:4] == ["api", "--method", "PATCH", "repos/ada/project/issues/comments/11"]
    assert "none fails" in body


def test_a_pull_request_that_has_moved_on_gets_none(comment, raw, over):
    done, calls, body = comment(raw(over()), pulls="")
    assert (done.returncode, len(calls), body) == (0, 1, None)
    assert "no open pull request" in done.stdout


def test_the_name_of_a_branch_is_no_command(comment, shell, raw, over):
    _, calls, _ = comment(raw(over()), branch='x";touch ../owned;"$(touch ../owned)`touch ../owned`')
    assert calls[0][7] == 'head=bob:x";touch ../owned;"$(touch ../owned)`touch ../owned`'
    assert not (shell.folder / "owned").exists()


def test_a_file_that_is_no_report_is_refused_before_any_request(comment, raw, row):
    done, calls, body = comment(raw(row(verdict="\x1b[2J")))
    assert done.returncode == 2
    assert (calls, body) == ([], None)
    assert "tests[0].verdict: must be one of" in done.stderr


def test_a_hostile_report_is_one_comment(comment, hostile_report):
    done, calls, body = comment(hostile_report)
    assert done.returncode == 0, done.stderr
    assert len(calls) == 3
    assert len(body) < 65_536


def test_gitlab_makes_the_files_that_it_hands_over(shell, raw, over):
    pytest.importorskip("plotly", reason="the extra html is not installed")
    job = read(GITLAB)["memory budgets"]
    (shell.folder / "made.json").write_text(json.dumps(raw(over())))
    (shell.folder / "status").write_text("1")
    env = {"MEMBUDGET_TESTS": "tests"}
    assert shell("\n".join(job["script"]), env, interpreter=["sh", "-e"]).returncode == 1
    after = shell("\n".join(job["after_script"]), env, interpreter=["sh", "-e"])
    assert after.returncode == 0, after.stderr
    made = {f"membudget/{path.name}" for path in (shell.work / "membudget").iterdir()}
    handed = {*job["artifacts"]["paths"], *job["artifacts"]["reports"].values()}
    assert handed - made == {"membudget/junit.xml"}  # pytest's own
    assert "--junitxml=membudget/junit.xml" in (shell.folder / "pytest.txt").read_text()
    assert len(json.loads((shell.work / "membudget/codequality.json").read_text())) == 1
