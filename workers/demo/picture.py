"""The numbers of one moment, and what changed between moments. Pure: samples and times come in."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from workers.demo.samples import Samples
from workers.metrics import catalogue as m
from workers.metrics.labels import End, LevelLabel
from workers.processing.fidelity.verdict import Status
from workers.reasons import Reason

STATE_WRITES: Final = "state-writes"
RATE_SECONDS: Final = 5.0
"""Rates are means over this time: batches and scrapes would make shorter ones jump."""
SKEW_SECONDS: Final = 3.0
"""Partitions are read side by side: turns from before a release may be counted so long after its first ones."""


class ProducerPath(NamedTuple):
    """One code path of one service."""

    service: str
    path: str


class Gap(NamedTuple):
    """A part of the fingerprint that the turns of a path do not name; ``state`` tells why not."""

    service: str
    path: str
    field: str
    state: str

    @property
    def producer(self) -> ProducerPath:
        """Whose turns they are."""
        return ProducerPath(self.service, self.path)


class Share(NamedTuple):
    """The partitions one worker holds, by topic, in order."""

    worker: str
    partitions: Mapping[str, list[int]]


@dataclass(frozen=True, slots=True)
class Picture:
    """All numbers of one moment, summed over the workers; ``at`` is in seconds since the epoch."""

    at: float
    received: Counter[str]
    ends: Counter[tuple[str, str]]
    difference: int
    mix: Counter[str]
    """Turns by fidelity level, by status where there is no level: every verdict is in it once."""
    gaps: Counter[Gap]
    """Turns by what they lack; unwaived."""
    turns: Counter[ProducerPath]
    evidence: Counter[str]
    """Missing pieces of evidence by code."""
    letters: Counter[tuple[str, Reason]]
    lag: Counter[str]
    shares: tuple[Share, ...]
    samples: Samples
    """All of it, for whoever needs another cut."""

    @property
    def verdicts(self) -> int:
        """Verdicts on ``fidelity``."""
        return self.mix.total()

    def ended(self, topic: str, end: End) -> int:
        """Return how many records of ``topic`` came to ``end``."""
        return self.ends[topic, end]

    @property
    def is_quiet(self) -> bool:
        """Whether nothing waits to be processed."""
        return not self.lag.total()


def take_picture(at: float, workers: Mapping[str, Samples]) -> Picture:
    """Return the numbers in the ``workers``' samples, by name of the worker."""
    samples = Samples.merged(workers.values())
    return Picture(
        at=at,
        received=_by_one(samples.by(m.RECORDS_RECEIVED, "topic")),
        ends=Counter({(topic, end): n for (topic, end), n in samples.by(m.RECORDS, "topic", "end").items()}),
        difference=sum(samples.by(m.CONSERVATION_DIFFERENCE, "topic").values()),
        mix=_mix(samples),
        gaps=Counter(
            {
                Gap(*labels): n
                for (*labels, waived), n in samples.by(
                    m.FINGERPRINT_INCOMPLETE, "service", "path", "field", "state", "waived"
                ).items()
                if waived == "false"
            }
        ),
        turns=Counter(
            {ProducerPath(*labels): n for labels, n in samples.by(m.FIDELITY_TURNS, "service", "path").items()}
        ),
        evidence=_by_one(samples.by(m.FIDELITY_GAPS, "code")),
        letters=Counter(
            {(topic, Reason(reason)): n for (topic, reason), n in samples.by(m.DEAD_LETTERS, "topic", "reason").items()}
        ),
        lag=_by_one(samples.by(m.LAG_RECORDS, "topic")),
        shares=tuple(Share(name, _partitions(of_worker)) for name, of_worker in sorted(workers.items())),
        samples=samples,
    )


def _by_one(sums: Counter[tuple[str, ...]]) -> Counter[str]:
    return Counter({value: n for (value,), n in sums.items()})


def _mix(samples: Samples) -> Counter[str]:
    mix: Counter[str] = Counter()
    for (status, level), n in samples.by(m.FIDELITY_TURNS, "status", "level").items():
        mix[level if status == Status.GRADED else status] += n
    return mix


MIX: Final = (
    *(str(level) for level in LevelLabel if level != LevelLabel.NONE),
    *(str(status) for status in Status if status != Status.GRADED),
)
"""Every name that may occur in the mix, best first."""


def _partitions(samples: Samples) -> dict[str, list[int]]:
    held: dict[str, list[int]] = {}
    for topic, partition in samples.label_values(m.OWN_LAG_SECONDS, "topic", "partition"):
        held.setdefault(topic, []).append(int(partition))
    return {topic: sorted(numbers) for topic, numbers in sorted(held.items())}


class Onset(NamedTuple):
    """When a gap was first seen, in seconds since the epoch, and how many turns its path had made before."""

    at: float
    turns_before: int


class History:
    """The pictures of the last seconds, and when each gap began."""

    def __init__(self) -> None:
        self._recent: deque[Picture] = deque()
        self.onsets: dict[Gap, Onset] = {}

    @property
    def latest(self) -> Picture | None:
        """The last picture, None before the first."""
        return self._recent[-1] if self._recent else None

    def add(self, picture: Picture) -> list[Gap]:
        """Take in the next picture; return the gaps that were not there before."""
        new = [gap for gap in picture.gaps if gap not in self.onsets]
        for gap in picture.gaps:
            onset = self.onsets.get(gap, Onset(picture.at, 0))
            if picture.at - onset.at <= SKEW_SECONDS:
                without = picture.turns[gap.producer] - picture.gaps[gap]
                self.onsets[gap] = onset._replace(turns_before=max(onset.turns_before, without))
        self._recent.append(picture)
        while len(self._recent) > 2 and picture.at - self._recent[1].at >= RATE_SECONDS:
            self._recent.popleft()
        return new

    def rate(self, count: Callable[[Picture], int]) -> float:
        """Return by how much ``count`` rose per second over the last seconds."""
        if len(self._recent) < 2:
            return 0.0
        first, last = self._recent[0], self._recent[-1]
        return max(0.0, (count(last) - count(first)) / (last.at - first.at))
