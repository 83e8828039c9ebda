"""git in repositories of tests."""

import subprocess

#: Of the user's own settings none may matter.
_OWN = (
    "user.name=a",
    "user.email=a@example.com",
    "commit.gpgsign=false",
    "init.defaultBranch=main",
    "protocol.file.allow=always",
)


def git(folder, *args):
    """What ``git args`` prints in ``folder``."""
    own = [part for one in _OWN for part in ("-c", one)]
    done = subprocess.run(["git", "-C", str(folder), *own, *args], check=True, capture_output=True, text=True)
    return done.stdout.strip()
