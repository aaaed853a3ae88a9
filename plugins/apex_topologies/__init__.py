"""A plugin package of APEX."""
