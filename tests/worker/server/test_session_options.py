import gc
import weakref

import pytest

from pytest_membudget.worker.server.session_options import collect_garbage, keep_garbage, leave_aside_imported


@pytest.mark.parametrize(("is_set", "most_new"), [(False, gc.get_threshold()[0]), (True, 7)])
def test_imports_are_not_searched_for_garbage_and_tests_are_as_the_imports_want(is_set, most_new):
    before = gc.get_threshold()
    try:
        keep_garbage()
        assert gc.get_threshold()[0] == 0
        if is_set:  # by an import
            gc.set_threshold(7)
        collect_garbage()
        assert gc.get_threshold()[0] == most_new
    finally:
        gc.set_threshold(*before)


class Cycle:
    def __init__(self):
        self.own = self


def made():
    one = Cycle()
    return weakref.ref(one)


def test_what_was_imported_before_the_test_files_is_looked_at_by_the_first_collection_of_all():
    """A search of all that torch's import has made takes longer than a small test."""
    before = gc.get_threshold()
    try:
        keep_garbage()
        torchs = made()
        leave_aside_imported()
        test_files = made()
        collect_garbage()
        assert (torchs() is None, test_files() is None) == (False, True)
        assert any(one is torchs() for one in gc.get_objects())
        assert gc.get_freeze_count() == 0
        assert gc.get_count()[1:] == (0, 0)
        gc.collect()
        assert torchs() is None
    finally:
        gc.set_threshold(*before)
