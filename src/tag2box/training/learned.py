"""`Learned`: what a method makes of what is known."""

from dataclasses import dataclass

from tag2box.training.findings import Findings
from tag2box.training.known import Known
from tag2box.training.scorer import Scorer


@dataclass(frozen=True)
class Learned:
    """What scores a window, and what it finds in the photos learned from.

    known: these, with all that the method has measured of them.
    """

    scorer: Scorer
    findings: Findings
    known: Known
