"""Attacks on history: names that are options, magic in paths, hostile configuration and sources, looks ahead."""

from __future__ import annotations

from collections.abc import Iterator

from .attacks import Attack, one, order


def attacks() -> Iterator[Attack]:
    """All of them, in a fixed order."""
    refused = ("E_REF", "E_ARG")
    for value in (
        "--output=/tmp/owned",
        "-c",
        "--upload-pack=touch /tmp/owned",
        "HEAD..x",
        "a\nb",
        "@{-1}",
        "x.lock",
        "../x",
        "",
    ):
        for tool, arguments in (
            ("git.branch", {"name": value}),
            ("git.branch", {"name": "fine", "revision": value}),
            ("git.log", {"revision": value}),
            ("git.show", {"revision": value}),
            ("git.diff", {"from": value}),
            ("git.merge", {"branch": value}),
            ("git.checkout", {"path": "lib/work.py", "revision": value}),
        ):
            yield one(
                "A21",
                f"{value!r} as {'/'.join(arguments)} of {tool}",
                "git",
                "coder",
                order(tool, arguments),
                *refused,
                "E_MISSING",
            )
    for path in (":(top)..", ":/", ":!x", ":(attr:x)lib", "*"):
        yield one(
            "A24",
            f"magic {path}",
            "git",
            "coder",
            order("git.log", {"path": path}),
            "ok",
            "E_PATH",
            "E_ARG",
            "E_MISSING",
        )
    yield one(
        "A25",
        "commit where configuration is hostile",
        "git",
        "coder",
        order("git.commit", {"message": "x"}),
        "ok",
        "E_ARG",
        "E_PATCH",
        "E_EMPTY",
        "E_EXISTS",
    )
    yield one("A27", "status where hooks are hostile", "git", "coder", order("git.status"), "ok")
    for source in (
        "ext::sh -c touch% /tmp/owned",
        "file:///etc",
        "ssh://-oProxyCommand=touch/x",
        "https://127.0.0.1:9/x",
        "git://127.0.0.1:9/x",
        "-u/x",
        "http://169.254.169.254/",
    ):
        yield one(
            "A28",
            f"clone {source}",
            "git",
            "coder",
            order("git.clone", {"source": source, "path": "clone"}),
            "E_PROTO",
            "E_REF",
            "E_ARG",
            "E_POLICY",
            "E_PATH",
            "E_URL",
            "E_SCOPE",
        )
    for revision in ("--all", "refs/stash", "ORIG_HEAD", "HEAD@{1}", "origin/main", "FETCH_HEAD"):
        yield one(
            "A32",
            f"look ahead to {revision}",
            "git",
            "coder",
            order("git.show", {"revision": revision}),
            *refused,
            "E_MISSING",
        )
    yield one(
        "A33",
        "escapes in a message",
        "git",
        "coder",
        order("git.commit", {"message": "\x1b]52;c;AAAA\x07\x1b[2J"}),
        "ok",
        "E_ARG",
        "E_PATCH",
        "E_EMPTY",
    )
