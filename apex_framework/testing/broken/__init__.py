"""Plugins that break their contract in one known way each: per file ``BROKEN`` maps a check to a factory."""
