"""Sessions that needed no worker, remembered for the next one like them."""

import os
from types import SimpleNamespace

import pytest

from pytest_membudget.budgets.settings import OFF, ON, REFRESH, Settings
from pytest_membudget.cache import idle
from pytest_membudget.cache.idle import remember_idle, was_idle


@pytest.fixture
def session(monkeypatch, tmp_path):
    """``session(*args)``: the configuration of a session with these arguments."""
    monkeypatch.setenv("MEMBUDGET_CACHE_DIR", str(tmp_path / "kept"))

    def made(*args, root="/project"):
        return SimpleNamespace(rootpath=root, invocation_params=SimpleNamespace(dir=root), args=list(args))

    return made


def test_one_that_needed_none_is_remembered_until_one_like_it_needs_one(session):
    settings = Settings()

    assert not was_idle(settings, session("tests"))
    remember_idle(settings, session("tests"), is_idle=True)
    assert was_idle(settings, session("tests"))
    assert not was_idle(settings, session("tests/more"))
    assert not was_idle(settings, session("tests", root="/other"))
    remember_idle(settings, session("tests"), is_idle=False)
    assert not was_idle(settings, session("tests"))


@pytest.mark.parametrize(("cache", "known"), [(ON, True), (REFRESH, False), (OFF, False)])
def test_nothing_is_asked_where_estimates_are_not_used(session, cache, known):
    remember_idle(Settings(), session(), is_idle=True)

    assert was_idle(Settings(cache=cache), session()) is known


def test_nothing_is_written_where_nothing_is_kept(session, tmp_path):
    remember_idle(Settings(cache=OFF), session(), is_idle=True)

    assert not (tmp_path / "kept").exists()


def test_a_place_that_cannot_be_written_or_read_is_as_if_nothing_were_known(session, tmp_path):
    (tmp_path / "kept").write_text("a file")

    remember_idle(Settings(), session(), is_idle=True)
    remember_idle(Settings(), session(), is_idle=False)
    assert not was_idle(Settings(), session())


def test_they_do_not_become_more_and_more(session, tmp_path, monkeypatch):
    monkeypatch.setattr(idle, "_MOST", 3)
    for number in range(5):
        remember_idle(Settings(), session(str(number)), is_idle=True)
        for file in (tmp_path / "kept" / "idle").iterdir():
            os.utime(file, (file.stat().st_mtime - 10,) * 2)

    known = [number for number in range(5) if was_idle(Settings(), session(str(number)))]
    assert known == [2, 3, 4]
