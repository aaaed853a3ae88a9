"""``mini``: differential tests on standard-library modules with injected faults."""
