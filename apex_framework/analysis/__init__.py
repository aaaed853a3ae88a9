"""Statistics over artifacts. numpy and scipy are imported when a function needs them."""

from .checkpoint import checkpoint_bytes, checkpoint_digest, read_checkpoint, write_checkpoint

__all__ = ["checkpoint_bytes", "checkpoint_digest", "read_checkpoint", "write_checkpoint"]
