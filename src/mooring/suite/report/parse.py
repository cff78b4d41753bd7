from mooring.suite.records.file import *  # noqa: F403
