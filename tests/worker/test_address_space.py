"""A limit of address space that a test has set does not hold for what is done after it."""

from tests.programs import printed

BODY = """
import resource
from pytest_membudget.worker.server.one_test.item_run import without_soft_limit

resource.setrlimit(resource.RLIMIT_AS, (2**20, resource.RLIM_INFINITY))
with without_soft_limit():
    assert len(bytearray(2**28)) == 2**28
assert resource.getrlimit(resource.RLIMIT_AS)[0] == 2**20
try:
    bytearray(2**28)
except MemoryError:
    print("limited again")
"""


def test_the_limit_is_away_and_comes_back():
    assert printed("-c", BODY) == "limited again\n"
