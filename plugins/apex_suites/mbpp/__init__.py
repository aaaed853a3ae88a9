"""``mbpp``: short functions of Google's Mostly Basic Python Problems, with an injected fault."""
