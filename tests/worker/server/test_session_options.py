import gc

import pytest

from pytest_membudget.worker.server.session_options import collect_garbage, keep_garbage


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
