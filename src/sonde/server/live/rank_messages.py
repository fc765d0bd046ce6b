"""Applies the messages of ranks to a live run."""

from __future__ import annotations

from collections import deque
from typing import Final

import msgspec

from sonde.ranks.ends import RaisedError
from sonde.server.hit_store import HitStore
from sonde.server.http.events import Changes, Topic
from sonde.server.live.control import RunControl
from sonde.server.live.findings_output import FindingsOutput
from sonde.server.live.rank import MOST_TEXT, LiveRank
from sonde.server.live.rank_comparison import RankComparison
from sonde.server.live.rank_link import RankLink
from sonde.server.live.ranks import LiveRanks
from sonde.wire import rank as messages
from sonde.wire.shapes import HeadlineText, Hit

MOST_NOTICES: Final = 200
MOST_IN_CHAIN: Final = 200
MOST_NODE_BYTES: Final = 512 << 20
"""In the graphs of all ranks of a run together, as they were sent."""

_Stored = (
    messages.Status
    | messages.StepDone
    | messages.ParameterNames
    | messages.ParameterNorms
    | messages.OpStatistics
    | messages.Kept
    | messages.FirstStepProgress
    | messages.Diagnosed
    | messages.Goodbye
)


class RankMessages:
    """Stores what the ranks of one run send: status, steps, hits, findings, graphs and notices.
    Used in the event loop's thread only."""

    def __init__(
        self,
        ranks: LiveRanks,
        run_control: RunControl,
        changes: Changes,
        output: FindingsOutput | None = None,
    ) -> None:
        self._ranks = ranks
        self._run_control = run_control
        self._changes = changes
        self._notices: deque[str] = deque(maxlen=MOST_NOTICES)
        self._unobserved: dict[str, None] = {}
        self.hits = HitStore(self._is_leaf)
        self.comparison = RankComparison(ranks, changes, output)

    @property
    def notices(self) -> tuple[str, ...]:
        return tuple(self._notices)

    @property
    def unobserved(self) -> tuple[str, ...]:
        """What ranks say they do not observe."""
        return tuple(self._unobserved)

    def receive(self, rank: LiveRank, link: RankLink, message: messages.FromRank) -> None:
        """Apply a message; FrameError if it does not fit the messages before it."""
        match message:
            case messages.Answer():
                link.answered(message)
            case messages.Hits():
                self._add_hits(rank, message)
            case messages.GraphPart():
                self._add_graph_part(rank, message)
            case messages.Notice():
                self._add_notice_of(rank, message)
            case messages.JobStart():
                self.comparison.start(message)
            case messages.RankReports():
                self.comparison.receive(rank.number, message.data)
            case messages.JobEnd():
                self.comparison.end(rank.number, _raised(message))
            case messages.Alive():
                pass  # The link has counted it.
            case messages.Hello():
                self.add_notice(f"rank {rank.number} sent a second hello [rank-unreadable]")
                self._changes.touch("notices")
            case _:
                self._store(rank, message)

    def _store(self, rank: LiveRank, message: _Stored) -> None:
        """Keep what a rank says about itself."""
        match message:
            case messages.Status():
                self._run_control.note_generation(message.generation)
                rank.set_status(message)
            case messages.StepDone():
                rank.add_step(message)
            case messages.ParameterNames():
                rank.history.set_names(message)
            case messages.ParameterNorms():
                rank.history.add_norms(message)
            case messages.OpStatistics():
                rank.history.add_rows(message)
            case messages.Kept():
                rank.set_kept(message)
            case messages.FirstStepProgress():
                rank.set_progress(message.ops)
            case messages.Diagnosed():
                rank.set_diagnosis(message.diagnosis)
            case messages.Goodbye():
                rank.end(message)
        if changed := _changed(message):
            self._changes.touch(*changed)

    def _add_notice_of(self, rank: LiveRank, message: messages.Notice) -> None:
        text = message.text[:MOST_TEXT]
        self.add_notice(f"rank {rank.number}: {text} [{message.slug[:100]}]")
        if message.is_gap and len(self._unobserved) < MOST_NOTICES:
            self._unobserved[f"rank {rank.number}: {text}"] = None
        self._changes.touch("notices")

    def add_notice(self, text: str) -> None:
        if not self._notices or self._notices[-1] != text:
            self._notices.append(text)

    def _add_hits(self, rank: LiveRank, message: messages.Hits) -> None:
        dropped = self.hits.dropped()
        rank.note_hit(max((hit.number for hit in message.hits), default=-1))
        self.hits.add(_bounded(hit, rank.number) for hit in message.hits)
        if self.hits.dropped() and not dropped:
            self.add_notice("too many hits: only the first and the newest are kept [many-hits]")
        self._changes.touch("hits")

    def _add_graph_part(self, rank: LiveRank, part: messages.GraphPart) -> None:
        size = len(messages.encoder.encode(part))
        held = sum(each.graphs.held_bytes for each in self._ranks.values())
        if held + size > MOST_NODE_BYTES or not rank.graphs.add(part, size):
            self.add_notice(
                f"rank {rank.number} has too many or too large graphs: new ones are not kept "
                "[many-graphs]"
            )
        self._changes.touch("graph")

    def _is_leaf(self, hit: Hit) -> bool:
        rank = self._ranks.get(hit.rank)
        return rank is not None and hit.op in rank.graphs.leaves


def _changed(message: _Stored) -> tuple[Topic, ...]:
    """What the page has to load again after a message."""
    match message:
        case messages.StepDone():
            return ("loss", "status") if message.is_measurement else ("loss",)
        case messages.ParameterNames() | messages.ParameterNorms():
            return ()
        case messages.Diagnosed():
            return ("status", "graph")
        case _:
            return ("status",)


def _raised(message: messages.JobEnd) -> RaisedError | None:
    if not message.error:
        return None
    texts = (message.error, message.text, message.source)
    return RaisedError(*(each[:MOST_TEXT] for each in texts))


def bounded_headline(headline: HeadlineText | None) -> HeadlineText | None:
    if headline is None:
        return None
    title, text = headline.title[:MOST_TEXT], headline.text[:MOST_TEXT]
    return HeadlineText(title, text, headline.source)


def _bounded(hit: Hit, rank: int) -> Hit:
    """The hit with the number of the rank that sent it, and with texts of limited length."""
    return msgspec.structs.replace(
        hit,
        rank=rank,
        why=hit.why[:MOST_TEXT],
        headline=bounded_headline(hit.headline),
        advice=hit.advice[:MOST_TEXT],
        chain=hit.chain[:MOST_IN_CHAIN],
        values=hit.values[:MOST_IN_CHAIN],
    )
