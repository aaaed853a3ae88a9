"""APEX: small teams of LLM agents under a hard budget, with a topology that can change while they work."""

__version__ = "0.1.0"
