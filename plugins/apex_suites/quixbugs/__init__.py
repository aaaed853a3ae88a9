"""``quixbugs``: a checkout of jkoppel/QuixBugs as a test set that nobody tunes on."""
