"""Applies the messages of ranks to a live run."""

from __future__ import annotations

from collections import deque
from typing import Final

import msgspec

from sonde.server.hit_store import HitStore
from sonde.server.http.events import Changes
from sonde.server.live.control import RunControl
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


class RankMessages:
    """Stores what the ranks of one run send: status, steps, hits, findings, graphs and notices.
    Used in the event loop's thread only."""

    def __init__(self, ranks: LiveRanks, run_control: RunControl, changes: Changes) -> None:
        self._ranks = ranks
        self._run_control = run_control
        self._changes = changes
        self._notices: deque[str] = deque(maxlen=MOST_NOTICES)
        self._unobserved: dict[str, None] = {}
        self.hits = HitStore(self._is_leaf)
        self.comparison = RankComparison(ranks, changes)

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
            case messages.Status():
                self._run_control.note_generation(message.generation)
                rank.set_status(message)
                self._changes.touch("status")
            case messages.StepDone():
                rank.add_step(message)
                self._changes.touch("loss", *(("status",) if message.is_measurement else ()))
            case messages.ParameterNames():
                rank.history.set_names(message)
            case messages.ParameterNorms():
                rank.history.add_norms(message)
            case messages.OpStatistics():
                rank.history.add_rows(message)
                self._changes.touch("status")
            case messages.Kept():
                rank.set_kept(message)
                self._changes.touch("status")
            case messages.FirstStepProgress():
                rank.set_progress(message.ops)
                self._changes.touch("status")
            case messages.Hits():
                self._add_hits(rank, message)
            case messages.GraphPart():
                self._add_graph_part(rank, message)
            case messages.Notice():
                text = message.text[:MOST_TEXT]
                self.add_notice(f"rank {rank.number}: {text} [{message.slug[:100]}]")
                if message.is_gap and len(self._unobserved) < MOST_NOTICES:
                    self._unobserved[f"rank {rank.number}: {text}"] = None
                self._changes.touch("notices")
            case messages.Diagnosed():
                rank.set_diagnosis(message.diagnosis)
                self._changes.touch("status", "graph")
            case messages.JobStart():
                self.comparison.start(message)
            case messages.RankReports():
                self.comparison.receive(rank.number, message.data)
            case messages.JobEnd():
                self.comparison.end(rank.number)
            case messages.Alive():
                pass  # The link has counted it.
            case messages.Goodbye():
                rank.end(message)
                self._changes.touch("status")
            case messages.Hello():
                self.add_notice(f"rank {rank.number} sent a second hello [rank-unreadable]")
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


def bounded_headline(headline: HeadlineText | None) -> HeadlineText | None:
    if headline is None:
        return None
    return HeadlineText(headline.title[:MOST_TEXT], headline.text[:MOST_TEXT])


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
