"""What an attacker puts into a repository, a workspace, an argument or the environment so that git runs or reads it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from hostile import NASTY_PATHS, NASTY_REVISIONS, SECRET, Evil, plain_git

HOOKS = [
    "applypatch-msg",
    "pre-applypatch",
    "post-applypatch",
    "pre-commit",
    "pre-merge-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "pre-rebase",
    "post-checkout",
    "post-merge",
    "pre-push",
    "pre-receive",
    "update",
    "proc-receive",
    "post-receive",
    "post-update",
    "reference-transaction",
    "push-to-checkout",
    "pre-auto-gc",
    "post-rewrite",
    "post-index-change",
    "fsmonitor-watchman",
]
OWN = "160000"

PAYLOADS: dict[str, Callable[[Evil], Any]] = {}


def payload(work: Callable[[Evil], Any]) -> Callable[[Evil], Any]:
    """Adds it under its name."""
    PAYLOADS[work.__name__] = work
    return work


@payload
def config_fsmonitor(e: Evil) -> None:
    e.config(f"[core]\n\tfsmonitor = {e.script(e.root / 'tools/fsm', 'fsmonitor')}")


@payload
def config_hooks_path(e: Evil) -> None:
    for hook in HOOKS:
        e.script(e.root / "tools/hooks" / hook, f"hooks-path-{hook}")
    e.config(f"[core]\n\thooksPath = {e.root}/tools/hooks")


@payload
def config_pager(e: Evil) -> None:
    e.config(f"[core]\n\tpager = {e.touch('pager')}\n[pager]\n\tlog = {e.touch('pager-log')}\n\tdiff = {e.touch('p')}")


@payload
def config_editor(e: Evil) -> None:
    e.config(f"[core]\n\teditor = {e.touch('editor')}\n[sequence]\n\teditor = {e.touch('sequence')}")


@payload
def config_ssh_command(e: Evil) -> None:
    e.config(f'[core]\n\tsshCommand = {e.touch("ssh")}\n[remote "origin"]\n\turl = ssh://h/x\n\tpromisor = true')


@payload
def config_aliases(e: Evil) -> None:
    names = ("fetch", "ls-tree", "cat-file", "diff-tree", "log", "rev-parse", "st")
    e.config("[alias]\n" + "".join(f'\t{n} = "!{e.touch("alias-" + n)}"\n' for n in names))


@payload
def config_external_diff(e: Evil) -> None:
    e.config(f"[diff]\n\texternal = {e.script(e.root / 'tools/ext', 'external-diff')}")


@payload
def filter_clean_and_smudge(e: Evil) -> None:
    program = e.script(e.root / "tools/filter", "filter")
    e.config(f'[filter "x"]\n\tclean = {program}\n\tsmudge = {program}\n\trequired = true')
    e.attributes("* filter=x")


@payload
def filter_process(e: Evil) -> None:
    e.config(f'[filter "x"]\n\tprocess = {e.script(e.root / "tools/process", "filter-process")}')
    e.attributes("* filter=x")


@payload
def diff_textconv(e: Evil) -> None:
    e.config(f'[diff "x"]\n\ttextconv = {e.script(e.root / "tools/textconv", "textconv")}')
    e.attributes("* diff=x")


@payload
def diff_driver_command(e: Evil) -> None:
    e.config(f'[diff "x"]\n\tcommand = {e.script(e.root / "tools/driver", "diff-driver")}')
    e.attributes("* diff=x")


@payload
def merge_driver(e: Evil) -> None:
    e.config(f'[merge "x"]\n\tdriver = {e.touch("merge-driver")}\n[merge]\n\tdefault = x')
    e.attributes("* merge=x")


@payload
def upload_pack_hook(e: Evil) -> None:
    e.config(f"[uploadpack]\n\tpackObjectsHook = {e.script(e.root / 'tools/pack', 'pack-objects-hook')}")


@payload
def lazy_fetch_by_program(e: Evil) -> None:
    e.config(
        f'[extensions]\n\tpartialClone = origin\n[remote "origin"]\n\tpromisor = true\n\turl = {e.elsewhere}\n'
        f"\tuploadpack = {e.touch('lazy')};git-upload-pack"
    )
    e.config("[core]\n\trepositoryformatversion = 1")
    blob = plain_git(e.source, "rev-parse", "HEAD:a.txt").decode().strip()
    (e.git / "objects" / blob[:2] / blob[2:]).unlink()


@payload
def lazy_fetch_by_address(e: Evil) -> None:
    e.config(
        f'[extensions]\n\tpartialClone = o\n[remote "o"]\n\tpromisor = true\n\turl = "ext::sh -c \'{e.touch("ext")}\'"'
    )
    e.config("[core]\n\trepositoryformatversion = 1\n[protocol]\n\tallow = always")
    (e.git / "refs/heads/main").write_text("1" * 40 + "\n")


@payload
def alternate_refs_command(e: Evil) -> None:
    e.config(f"[core]\n\talternateRefsCommand = {e.touch('alternate-refs')};true")
    e.config(f"[core]\n\talternateRefsPrefixes = refs\n[receive]\n\tprocReceiveRefs = refs # {e.canaries}")


@payload
def credential_helper(e: Evil) -> None:
    e.config(f'[credential]\n\thelper = "!{e.touch("credential")}"\n[core]\n\taskPass = {e.touch("askpass")}')
    e.revisions.append("https://localhost:1/x")


@payload
def signature_program(e: Evil) -> None:
    e.config(
        f"[gpg]\n\tprogram = {e.script(e.root / 'tools/gpg', 'gpg')}\n[log]\n\tshowSignature = true\n[commit]\n\tgpgSign = true"
    )
    head = plain_git(e.source, "cat-file", "commit", "HEAD")
    facts, _, text = head.partition(b"\n\n")
    signed = facts + b"\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n\n" + text
    commit = plain_git(e.source, "hash-object", "-t", "commit", "-w", "--literally", "--stdin", data=signed)
    (e.git / "refs/heads/main").write_bytes(commit)


@payload
def include_of_a_secret(e: Evil) -> None:
    e.config(f"[include]\n\tpath = {e.elsewhere}/secret.txt")


@payload
def worktree_elsewhere(e: Evil) -> None:
    e.config(f"[core]\n\tworktree = {e.elsewhere}\n\tbare = false")


@payload
def address_rewritten(e: Evil) -> None:
    e.config(f'[url "ext::sh -c {e.touch("rewritten")} "]\n\tinsteadOf = {e.source}\n\tinsteadOf = /')


@payload
def hooks(e: Evil) -> None:
    for hook in HOOKS:
        e.script(e.git / "hooks" / hook, f"hook-{hook}")


@payload
def git_file_to_elsewhere(e: Evil) -> None:
    e.git.rename(e.root / "moved")
    e.git.write_text(f"gitdir: {e.elsewhere}/.git\n")


@payload
def git_link_to_elsewhere(e: Evil) -> None:
    e.git.rename(e.root / "moved")
    e.git.symlink_to(e.elsewhere / ".git")


@payload
def alternates(e: Evil) -> None:
    (e.git / "objects/info").mkdir(exist_ok=True)
    (e.git / "objects/info/alternates").write_text(f"{e.elsewhere}/.git/objects\n")
    (e.git / "refs/heads/main").write_bytes(plain_git(e.elsewhere, "rev-parse", "HEAD"))


@payload
def objects_link_to_elsewhere(e: Evil) -> None:
    (e.git / "objects").rename(e.root / "moved")
    (e.git / "objects").symlink_to(e.elsewhere / ".git/objects")
    (e.git / "refs/heads/main").write_bytes(plain_git(e.elsewhere, "rev-parse", "HEAD"))


@payload
def object_links_to_elsewhere(e: Evil) -> None:
    commit = plain_git(e.elsewhere, "rev-parse", "HEAD").decode().strip()
    for folder in (e.elsewhere / ".git/objects").iterdir():
        if len(folder.name) == 2:
            for file in folder.iterdir():
                place = e.git / "objects" / folder.name / file.name
                place.parent.mkdir(exist_ok=True)
                if not place.exists():
                    place.symlink_to(file)
    (e.git / "refs/heads/main").write_text(commit + "\n")


@payload
def common_folder_elsewhere(e: Evil) -> None:
    (e.git / "commondir").write_text(f"{e.elsewhere}/.git\n")


@payload
def worktree_of_another(e: Evil) -> None:
    plain_git(e.elsewhere, "worktree", "add", "-q", str(e.root / "tree"), "HEAD~1")
    e.source.rename(e.root / "moved")
    (e.root / "tree").rename(e.source)


@payload
def ref_link_to_a_secret(e: Evil) -> None:
    (e.git / "refs/heads/main").unlink()
    (e.git / "refs/heads/main").symlink_to(e.elsewhere / "secret.txt")


@payload
def ref_that_names_a_file(e: Evil) -> None:
    (e.git / "HEAD").write_text("ref: refs/heads/../../../../elsewhere/.git/refs/heads/main\n")


@payload
def refs_that_look_like_options(e: Evil) -> None:
    head = plain_git(e.source, "rev-parse", "HEAD")
    for name in ("-x", "--output=o", "--upload-pack=x"):
        (e.git / "refs/heads" / name).write_bytes(head)
        e.revisions.append(name)


@payload
def revisions_that_are_something_else(e: Evil) -> None:
    e.revisions += [r.format(canaries=e.canaries) for r in NASTY_REVISIONS]


@payload
def pathspecs(e: Evil) -> None:
    e.paths += NASTY_PATHS


@payload
def submodule_with_a_command(e: Evil) -> None:
    modules = f'[submodule "s"]\n\tpath = s\n\turl = "ext::sh -c \'{e.touch("submodule")}\'"\n\tupdate = !{e.touch("update")}\n'
    head = plain_git(e.source, "rev-parse", "HEAD").strip()
    e.tree_commit([("100644", ".gitmodules", e.blob(modules.encode())), (OWN, "s", head)])
    (e.work / ".gitmodules").write_text(modules)
    e.config(f'[submodule "s"]\n\turl = {e.elsewhere}\n\tupdate = !{e.touch("update")}\n[submodule]\n\trecurse = true')


@payload
def submodule_with_a_carriage_return(e: Evil) -> None:
    modules = '[submodule "s"]\n\tpath = "s\r"\n\turl = ../elsewhere\n'
    head = plain_git(e.source, "rev-parse", "HEAD").strip()
    link = e.blob(b".git/hooks")
    e.tree_commit([("100644", ".gitmodules", e.blob(modules.encode())), ("120000", "s", link), (OWN, "s\r", head)])


@payload
def tree_with_a_git_folder(e: Evil) -> None:
    inner = plain_git(
        e.source, "mktree", data=b"100755 blob " + e.blob(e.touch("in-tree").encode()) + b"\tpost-checkout\n"
    )
    e.tree_commit([("40000", ".git", inner.strip())])


@payload
def tree_with_git_by_another_name(e: Evil) -> None:
    blob = e.blob(b"x")
    for number, name in enumerate(("GIT~1", ".Git", ".git ", ".g‌it", ".git::$INDEX_ALLOCATION", "．git")):
        e.tree_commit([("100644", name, blob)], f"n{number}")
        e.revisions.append(f"n{number}")


@payload
def tree_that_climbs(e: Evil) -> None:
    for number, name in enumerate(("..", "../escaped", ".", "/tmp/escaped", "a/../../escaped")):
        e.tree_commit([("100644", name, e.blob(b"x"))], f"c{number}")
        e.revisions.append(f"c{number}")


@payload
def tree_with_a_link_and_a_folder_of_one_name(e: Evil) -> None:
    inner = plain_git(e.source, "mktree", data=b"100644 blob " + e.blob(b"x") + b"\tescaped\n").strip()
    e.tree_commit([("120000", "d", e.blob(os.fsencode(e.elsewhere))), ("40000", "d", inner)])
    e.tree_commit([("120000", "d", e.blob(b"../../elsewhere")), ("40000", "d", inner)], "side")
    e.revisions.append("side")


@payload
def links_out_of_the_tree(e: Evil) -> None:
    (e.work / "l1").symlink_to(e.elsewhere / "secret.txt")
    (e.work / "l2").symlink_to("../elsewhere/secret.txt")
    (e.work / "deep").mkdir()
    (e.work / "deep/up").symlink_to("..")
    (e.work / "l3").symlink_to("deep/up/../elsewhere/secret.txt")
    e.tree_commit(
        [
            ("120000", "l1", e.blob(os.fsencode(e.elsewhere / "secret.txt"))),
            ("120000", "l2", e.blob(b"../elsewhere/secret.txt")),
        ]
    )


@payload
def workspace_with_a_repository_of_its_own(e: Evil) -> None:
    plain_git(e.work, "init", "-q")
    for hook in HOOKS:
        e.script(e.work / ".git/hooks" / hook, f"own-{hook}")
    e.config(f"[core]\n\tfsmonitor = {e.script(e.root / 'tools/own', 'own-fsmonitor')}", e.work / ".git")
    (e.work / "inner").mkdir()
    (e.work / "inner/.git").write_text(f"gitdir: {e.elsewhere}/.git\n")


@payload
def workspace_with_attributes_and_ignores(e: Evil) -> None:
    (e.work / ".gitattributes").write_text("* text eol=crlf ident working-tree-encoding=UTF-16 export-subst\n")
    (e.work / ".gitignore").write_text("*\n")
    (e.work / ".lfsconfig").write_text(f"[lfs]\n\tcustomtransfer.x.path = {e.script(e.root / 'tools/lfs', 'lfs')}\n")
    (e.work / ".mailmap").symlink_to(e.elsewhere / "secret.txt")


@payload
def special_files_in_the_workspace(e: Evil) -> None:
    os.mkfifo(e.work / "fifo")
    (e.work / "deep").mkdir()
    (e.work / "deep/--output=x").write_text("x")
    (e.work / 'new\nline\t\x1b[2J"\\').write_text("x")


@payload
def patches(e: Evil) -> None:
    new = "@@ -0,0 +1 @@\n+x\n"
    for name in ("../escaped", "/tmp/escaped", ".git/hooks/pre-commit", "a.txt/x", "b/../../escaped", "git~1/x"):
        e.patches.append(f"diff --git a/{name} b/{name}\nnew file mode 100755\n--- /dev/null\n+++ b/{name}\n{new}")
    link = f"diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+{e.elsewhere}\n\\ No newline at end of file\n"
    e.patches += [link, link + f"diff --git a/l/x b/l/x\nnew file mode 100644\n--- /dev/null\n+++ b/l/x\n{new}"]
    e.patches += ["diff --git a/a.txt b/../a.txt\nrename from a.txt\nrename to ../a.txt\n", "nothing", "\0\xff"]
    e.patches.append(
        "diff --git a/s b/s\nnew file mode 160000\n--- /dev/null\n+++ b/s\n@@ -0,0 +1 @@\n+Subproject commit "
        + "1" * 40
        + "\n"
    )


@payload
def environment(e: Evil) -> None:
    tool = str(e.script(e.root / "tools/env", "environment"))
    home = e.root / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(
        f"[core]\n\tfsmonitor = {tool}\n\thooksPath = {e.root}/tools\n[alias]\n\tlog = !{tool}\n"
    )
    e.script(home / "git", "git-in-this-folder")
    patch = pytest.MonkeyPatch()
    values = {
        "HOME": home, "XDG_CONFIG_HOME": home, "GIT_DIR": e.elsewhere / ".git", "GIT_WORK_TREE": e.elsewhere,
        "GIT_EXTERNAL_DIFF": tool, "GIT_SSH_COMMAND": tool, "GIT_ASKPASS": tool, "GIT_EDITOR": tool, "GIT_PAGER": tool,
        "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": tool, "GIT_TRACE": e.canaries / "trace",
        "GIT_CONFIG_PARAMETERS": f"'core.fsmonitor'='{tool}'", "GIT_EXEC_PATH": home, "GIT_INDEX_FILE": e.elsewhere / "i",
        "GIT_OBJECT_DIRECTORY": e.elsewhere / ".git/objects", "GIT_TEMPLATE_DIR": home, "GIT_PROXY_COMMAND": tool,
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": e.elsewhere / ".git/objects", "LD_PRELOAD_": "x",
        "PATH": f".:{os.environ['PATH']}", "PAGER": tool, "VISUAL": tool,
    }  # fmt: skip
    for name, value in values.items():
        patch.setenv(name, str(value))
    patch.chdir(home)
    e.undo = patch.undo  # type: ignore[attr-defined]  # called by the test when it is over


def offences(e: Evil, name: str) -> list[str]:
    """What a payload achieved while the framework worked on the attacker's place: nothing, if all is well."""
    PAYLOADS[name](e)
    before = e.state()
    try:
        e.work_through()
    finally:
        getattr(e, "undo", lambda: None)()
    found = [f"ran {canary}" for canary in e.fired()]
    after = e.state()
    found += [f"wrote {path}" for path in sorted(before.keys() | after.keys()) if before.get(path) != after.get(path)]
    found += ["read the secret"] if any(SECRET in seen for seen in e.seen) else []
    return found
