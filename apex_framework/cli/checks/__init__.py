"""What ``apex doctor`` looks at. A check is a function that yields findings; whatever it does, it costs a line, not the table."""
