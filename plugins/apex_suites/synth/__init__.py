"""``apex suite make``: any Python repository with passing tests as fault tasks in the SWE-bench format."""
