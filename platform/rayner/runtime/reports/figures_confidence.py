"""The plots of a report about probabilities: whether they are what they say, and whom to trust."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rayner.metrics.reliability import Reliability, RiskCoverage
from rayner.runtime.reports.drawing import INK, SERIES, WIDTH, marker_of, percent_axis, side_by_side, svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Wording(NamedTuple):
    """What the axes say: of what the probability is, what is right or wrong, and what is ordered by it."""

    title: str
    of: str
    judged: str
    ordered: str


FIRST = Wording("probabilities", "the first candidate", "first candidates", "mentions")
MENTIONS = Wording("scores of mentions", "a mention", "predicted mentions", "mentions")
FINE_TYPES = Wording("probabilities of fine types", "a fine type", "predicted types", "types")
PAIRS = Wording("scores of pairs", "an answer", "answers", "pairs")
ENTITIES = Wording("probabilities of entities", "the first candidate", "first candidates", "mentions")


def calibration_curves(found: Reliability, risk: RiskCoverage, wording: Wording) -> str:
    """A reliability plot, its bins as dots, and risk against coverage."""

    def draw(figure: Figure) -> None:
        first, second = side_by_side(figure, 2)
        first.plot((0, 1), (0, 1), ":", color=INK, alpha=0.5, linewidth=1)
        first.plot(found.predicted, found.observed, color=SERIES[0], marker="o", markersize=4)
        first.set(title=f"reliability, error {100 * found.error:.1f} %", xlim=(0, 1), ylim=(0, 1.02))
        first.set(xlabel=f"probability of {wording.of}", ylabel=f"{wording.judged} that are right")
        second.plot(risk.coverage, risk.risk, color=SERIES[1], marker=marker_of(risk.coverage))
        second.set(title=f"risk against coverage, area {100 * risk.area:.1f} %", xlim=(0, 1.01))
        second.set(xlabel=f"most confident {wording.ordered}", ylabel=f"{wording.judged} that are wrong")
        second.set_ylim(0, max(0.02, 1.05 * float(risk.risk.max())))
        for axes in (first, second):
            percent_axis(axes.xaxis)
            percent_axis(axes.yaxis)

    return svg(f"Reliability of {wording.title}, and risk against coverage", (WIDTH, 3.6), draw)
