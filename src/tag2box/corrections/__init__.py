"""Corrections: what a person has said about the photos of a run, as a log of events and as arrays."""

from tag2box.corrections.events import check_event, check_inside, new_id
from tag2box.corrections.log import CorrectionLog, read_state, warn
from tag2box.corrections.record import Corrections, collect
from tag2box.corrections.state import Box, PhotoCorrections, State

__all__ = [
    "Box",
    "CorrectionLog",
    "Corrections",
    "PhotoCorrections",
    "State",
    "check_event",
    "check_inside",
    "collect",
    "new_id",
    "read_state",
    "warn",
]
