"""Why a test may have another figure in another run, and how further runs differ from the first."""

from typing import Final

#: Why a test may have another figure; in addition, what the host has drawn or got.
UNKNOWN_DATA: Final = "data"
NUMBERS: Final = "numbers"
LOOPS: Final = "numbers at one line, one after the other"
TRUTHS: Final = "several truths"
CARD_DRAWS: Final = "draws of the card that have two other answers"
BOUNDS: Final = "sizes at their largest"
WAITING: Final = "a loop that may wait for larger sizes than the least"
ENDLESS: Final = "a loop that waits for larger sizes than the least, and was ended at a bound"
DRAWS: Final = "random numbers that the host draws"
HOST_ENDS: Final = "single numbers that the host draws"
STREAMS: Final = "memory that another stream uses is free only when that is known to be done"
GARBAGE: Final = "reference cycles hold tensors until Python collects garbage, sooner or later"
PEERS: Final = "whether cards reach each other's memory (cudaDeviceCanAccessPeer)"
BLOCKS: Final = "how many blocks of a kernel that is compiled at run time a multiprocessor takes"
CARD_MEMORY: Final = "the memory of a card that no mark names"
IMPORTS: Final = "what files are answered while they are imported"
CHOICES: Final = "which options rows choose, where none chooses some of them"
FINITE: Final = "whether what was checked is finite"
WATCHDOG: Final = "when NCCL's watchdog lets go of what collectives have used that nobody waits for"
#: Of these a second further run has another end.
OF_TWO_ENDS: Final = {NUMBERS, TRUTHS, CARD_DRAWS, BOUNDS, HOST_ENDS, CARD_MEMORY}
#: Texts of ``Answer.unknown`` that the caveats of the report are about; others are caveats themselves.
OF_READS: Final = {UNKNOWN_DATA, LOOPS, WAITING, ENDLESS, IMPORTS, *OF_TWO_ENDS}
#: Those that have a run for themselves.
APART: Final = {WATCHDOG, CHOICES, FINITE, GARBAGE}
#: Of ``Request.variant``: as 0, but numbers are below zero, none, or zero, masks select nothing, and every
#: other truth is turned.
ODD_NUMBERS: Final = 3
#: The same: as 0, but the watchdog lets go of them a step later.
LATE_WATCHDOG: Final = 4
#: As 0, but Python collects garbage only where the test asks for it; so in all but 0.
NO_COLLECTION: Final = 5
#: As 0, but the host draws other random numbers, of which single ones are at their lower end, or the upper.
OTHER_SEEDS: Final = 6
UPPER_DRAWS: Final = 7
#: As 0, but all rows choose the first options, and none chooses another.
FIRST_OPTIONS: Final = 8
#: As 0, but numbers fall, at each line from one read to the next, by enough for an improvement.
FALLING: Final = 9
#: Of ``Request.steady``: all lines; all truths, so that numbers alone are others; none, where variant 2 turns
#: all truths, as 1 does; and how a line begins whose truths are turned in each: a run raises by them.
EVERYWHERE: Final = "*"
ALL_TRUTHS: Final = "truths"
NOWHERE: Final = "-"
TURNED: Final = "not "
