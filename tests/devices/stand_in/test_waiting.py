"""What another stream uses is free only once somebody has waited for it, where answers are varied."""

import pytest
import torch

from pytest_membudget.devices.stand_in.libraries import StandInLibraries
from pytest_membudget.results.varied import STREAMS
from pytest_membudget.units import MIB

WAITS = {
    "nothing": lambda stream, event, x: None,
    "stream": lambda stream, event, x: stream.synchronize(),
    "device": lambda stream, event, x: torch.cuda.synchronize(),
    "event": lambda stream, event, x: event.synchronize(),
    "another event": lambda stream, event, x: torch.cuda.current_stream().record_event().synchronize(),
    "another stream": lambda stream, event, x: torch.cuda.current_stream().synchronize(),
    "through another stream": lambda stream, event, x: waited_for_through(event),
    "copy in the stream": lambda stream, event, x: copied_in(stream),
    "copy elsewhere": lambda stream, event, x: torch.ones(4, device="cuda").cpu(),
    "empty cache": lambda stream, event, x: torch.cuda.empty_cache(),
    "many launches": lambda stream, event, x: launched_in(stream, 1100),
    "some launches": lambda stream, event, x: launched_in(stream, 500),
}


def waited_for_through(event):
    torch.cuda.current_stream().wait_event(event)
    torch.ones(1, device="cuda").cpu()


def copied_in(stream):
    with torch.cuda.stream(stream):
        torch.ones(4, device="cuda").cpu()


def launched_in(stream, times):
    with torch.cuda.stream(stream):
        x = torch.ones(1, device="cuda")
        for _ in range(times):
            x.add_(1)


def side_stream(wait):
    """64 MiB are used by a stream that is behind, freed, and asked for again."""
    stream, x = torch.cuda.Stream(), torch.empty(64 * MIB, dtype=torch.uint8, device="cuda")
    with torch.cuda.stream(stream):
        x.add_(1)
        event = stream.record_event()
    x.record_stream(stream)
    del x
    WAITS[wait](stream, event, None)
    y = torch.empty(64 * MIB, dtype=torch.uint8, device="cuda")
    return torch.cuda.max_memory_reserved() - 2 * MIB * (wait not in NO_SMALL), y.nbytes


#: After these the stream may still be behind.
NO_USE = {"nothing", "another event", "another stream", "copy elsewhere", "some launches"}
#: These allocate no small tensor, whose segment has 2 MiB.
NO_SMALL = {"nothing", "stream", "device", "event", "another event", "another stream", "empty cache"}


def varied(name, *args):
    libraries, found = StandInLibraries(), []
    for other in (False, True):
        libraries.vary(other=other)
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        found.append(globals()[name](*args))
    return found, libraries.asked()


@pytest.mark.parametrize("wait", sorted(NO_USE))
def test_a_block_that_another_stream_uses_is_not_free_until_somebody_waits(stand_in, wait):
    """``free`` and ``process_events`` of CUDACachingAllocator.cpp: else the block is taken again."""
    (plausible, _), (other, _) = stand_in(varied, "side_stream", wait)[0]

    assert (plausible, other) == (64 * MIB, 128 * MIB)
    assert stand_in(varied, "side_stream", wait)[1] == [STREAMS]


@pytest.mark.parametrize("wait", sorted(WAITS.keys() - NO_USE))
def test_who_has_waited_finds_it_free(stand_in, wait):
    found, asked = stand_in(varied, "side_stream", wait)

    assert [reserved for reserved, _ in found] == [64 * MIB, 64 * MIB]
    assert asked == ([] if wait in NO_SMALL else [STREAMS])  # a small tensor was allocated before the wait


def queries():
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.ones(1, device="cuda")
    event, idle = stream.record_event(), torch.cuda.Stream()
    before = [event.query(), stream.query(), idle.query(), idle.record_event().query()]
    stream.synchronize()
    return [*before, event.query(), stream.query()]


def test_events_and_streams_say_whether_they_are_done(stand_in):
    """A stream without work has nothing to wait for."""
    found, asked = stand_in(varied, "queries")

    assert found == [[True] * 6, [False, False, True, True, True, True]]
    assert asked == [STREAMS]


def asked_again_and_again():
    x = torch.ones(1, device="cuda")
    event, times = torch.cuda.current_stream().record_event(), 0
    while not event.query():
        times += 1
    x.add_(1)
    while not torch.cuda.current_stream().query():
        times += 1
    return times > 10


def test_a_loop_that_asks_until_it_is_done_ends(stand_in):
    assert stand_in(varied, "asked_again_and_again")[0] == [False, True]


def prefetched():
    """A batch is copied in a stream of its own, and used in the default one, without a wait on the host."""
    stream = torch.cuda.Stream()
    for _ in range(3):
        with torch.cuda.stream(stream):
            batch = torch.empty(64 * MIB, dtype=torch.uint8, device="cuda")
        torch.cuda.current_stream().wait_stream(stream)
        batch.record_stream(torch.cuda.current_stream())
        batch.add_(1)
        del batch
    return torch.cuda.max_memory_reserved()


def test_each_batch_of_a_prefetcher_may_be_another_block(stand_in):
    assert stand_in(varied, "prefetched")[0] == [64 * MIB, 192 * MIB]


def loop_with_pinned_batches():
    for _ in range(3):
        batch = torch.ones(2**20).pin_memory().to("cuda", non_blocking=True)
        batch.add_(1)


def events_without_questions():
    streams = [torch.cuda.Stream() for _ in range(2)]
    for _ in range(3):
        for one, other in (streams, streams[::-1]):
            with torch.cuda.stream(one):
                torch.ones(2**20, device="cuda").mul_(2)
            other.wait_stream(one)
    torch.cuda.synchronize()


@pytest.mark.parametrize("body", ["loop_with_pinned_batches", "events_without_questions"])
def test_a_body_that_nobody_has_to_wait_in_is_asked_nothing(stand_in, body):
    assert stand_in(varied, body)[1] == []
