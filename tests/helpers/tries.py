"""How many random cases a property test tries: as many as it names, and ten times as many in ``make test-long``."""

import os

FACTOR = int(os.environ.get("TIMES_AS_MANY_CASES", "1"))


def tries(count: int) -> int:
    return count * FACTOR
