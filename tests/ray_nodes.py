"""The environment of Ray's nodes in tests."""

from __future__ import annotations

QUIET = {
    "LOG_NAME_UPDATE_INTERVAL_S": "3600",
    "RAY_LOG_MONITOR_MANY_FILES_THRESHOLD": "0",
    "REPORTER_UPDATE_INTERVAL_MS": "3600000",
}
"""Nobody reads the load of the node or the logs of workers, whose files Ray lists ten times a second."""
