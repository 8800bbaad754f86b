"""Workers; `run.py` is where to begin reading."""

from .attempt import Attempt, current_attempt
from .handler import Handler
from .run import Note, Tally, Worker

__all__ = ["Attempt", "Handler", "Note", "Tally", "Worker", "current_attempt"]
