"""A plugin that gives generators another seed in each session changes no estimate: pytest-randomly does."""

import pytest

#: As pytest-randomly 5.1.
RANDOMLY = """
    import random
    import zlib

    class Randomly:
        def pytest_configure(self, config):
            if config.option.randomly_seed == "default":
                config.option.randomly_seed = random.SystemRandom().getrandbits(32)

        def pytest_sessionstart(self, session):
            random.seed(int(session.config.option.randomly_seed))

        def pytest_runtest_call(self, item):
            random.seed(int(item.config.option.randomly_seed) + zlib.crc32(item.nodeid.encode()))

    def pytest_addoption(parser, pluginmanager):
        parser.addoption("--randomly-seed", default="default")
        pluginmanager.register(Randomly(), "randomly")
    """
FILES = {
    "conftest.py": RANDOMLY,
    "test_drawn.py": """
        import random

        import pytest
        from holding import hold

        @pytest.mark.mem_budget(gib=1)
        def test_drawn():
            kept = hold(random.randint(1, 200) / 1024)

        @pytest.mark.mem_budget(gib=1)
        def test_shuffled():
            sizes = [*range(1, 100)]
            random.shuffle(sizes)
            kept = hold(sizes[0] / 1024)
        """,
}
NAMES = ("test_drawn", "test_shuffled")


@pytest.fixture(scope="module", params=[(), ("-n2",)], ids=["alone", "xdist"])
def sessions(request, session_of, again, cache_in, tmp_path_factory):
    arguments = ("--membudget", "--membudget-report=membudget", *request.param)
    env = cache_in(tmp_path_factory.mktemp("kept"))
    first = session_of(FILES, *arguments, env=env)
    return [first, *(again(first, *arguments, *more, env=env) for more in ((), ("--randomly-seed=7",)))]


def test_without_a_seed_draws_are_varied_and_each_session_has_the_same_figures(sessions):
    first, second, _ = sessions

    assert [first.allocated(name) for name in NAMES] == [second.allocated(name) for name in NAMES]
    assert first.allocated("test_drawn") == 200 * 2**20
    for name in NAMES:
        (estimate,) = first.rows[name]["estimates"]
        assert [caveat["cause"] for caveat in estimate["caveats"]] == ["depends"]


def test_without_a_seed_estimates_are_kept(sessions):
    assert "2 from cache" in sessions[1].out
    assert "from cache" not in sessions[2].out


def test_a_seed_that_is_given_is_the_tests(sessions):
    for name in NAMES:
        (estimate,) = sessions[2].rows[name]["estimates"]
        assert not estimate["caveats"]
