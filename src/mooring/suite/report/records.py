from mooring.suite.records import *  # noqa: F403
