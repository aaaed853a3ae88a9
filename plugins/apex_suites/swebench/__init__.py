"""SWE-bench without containers: tasks from files of the user, bare clones, environments of our own, official log parsers."""
