"""Log records that say which job they belong to."""

from __future__ import annotations

import logging

from .worker.attempt import current_attempt


class JobFilter(logging.Filter):
    """Adds `job_id`, `job_attempt`, `job_queue` and `job_kind` to every record; empty outside of handlers.

    Give it to a handler: `handler.addFilter(JobFilter())`, and use the names in its format.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        attempt = current_attempt(default=None)
        record.job_id = attempt.id if attempt else ""
        record.job_attempt = attempt.number if attempt else 0
        record.job_queue = attempt.queue if attempt else ""
        record.job_kind = (attempt.kind or "") if attempt else ""
        return True
