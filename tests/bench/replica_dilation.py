"""Time dilation: lines and delays K times as slow as their names, and what is measured divided by
K, so that members which share processors get what they would with K times as many (Gupta et al.,
"To Infinity and Beyond: Time-Warped Network Emulation", NSDI 2006)."""

import dataclasses
import math
import os

# A volunteer's machine has at least two, and one would leave a codec and TLS to take turns.
CORES_PER_MEMBER = 2


def processors():
    return len(os.sched_getaffinity(0))


def factor(text):
    """--dilation: a number of at least 1, or "auto" as None."""
    if text == "auto":
        return None
    value = float(text)
    if not (math.isfinite(value) and value >= 1):
        raise ValueError(text)
    return value


def for_members(wanted, members, cores_per_member, cores=None):
    """The dilation of a group; None asks for the least that gives each member its cores."""
    cores = cores or processors()
    if wanted is None:
        wanted = max(1.0, members * cores_per_member / cores)
    return Dilation(wanted, wanted * cores / members)


@dataclasses.dataclass(frozen=True)
class Dilation:
    """"Real" is this machine's time, everything else the members': K real seconds are one."""

    k: float
    cores_per_member: float  # what a member has in its own time

    def real_rate(self, bits_per_second):
        return round(bits_per_second / self.k)

    def real_ms(self, milliseconds):
        return milliseconds * self.k

    def seconds(self, real_seconds):
        return real_seconds / self.k

    def rate(self, real_bits_per_second):
        return real_bits_per_second * self.k
