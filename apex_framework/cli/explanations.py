"""What each code, kind of failure and reason of a denial means: the words of ``apex explain``, as data.

A code's meaning and exit status are its class's own; here are its usual causes and what to do about them.
"""

from __future__ import annotations

from typing import Final

MEANINGS: Final[dict[str, str]] = {
    "E0001": "A bug: something went wrong that APEX does not expect.",
    "E0404": "A model backend failed in a call.",
    "E0411": "Git refuses or fails.",
}
"""Code -> what it means to a user, where that is not what the class says of itself."""

CODES: Final[dict[str, tuple[str, str]]] = {
    "E0001": (
        "A mistake in APEX itself or in a plugin; its traceback is in the log that the error names.",
        "Read the last lines of the log; leave a plugin out (-p no:NAME) or try --safe-mode; report it with the log.",
    ),
    "E0130": (
        "Ctrl-C, or a signal that ends programs.",
        "Nothing to mend. A run can be resumed: apex resume RUN.",
    ),
    "E0200": (
        "An unknown option, a missing argument, or options that do not go together.",
        "Read what the second line says, or the command's --help.",
    ),
    "E0201": (
        "A typo; or the plugin that brings the name is not installed, is broken, or was left out.",
        "Take a name that `apex plugins KIND` lists; look for the plugin in `apex doctor`.",
    ),
    "E0202": (
        "A typo in a file, a variable or a flag; a value of the wrong type; null, NaN or a negative number for a budget.",
        "The error names the place. `apex config show --origin` shows where each value comes from.",
    ),
    "E0203": (
        "A --budget of less than 200 tokens, or one that no call of the team fits into.",
        "Give more tokens; `apex run --plan` says what a run would take.",
    ),
    "E0204": (
        "Tasks, arms, seeds, a plugin or a suite are not those that the run was planned with; or --out is another experiment's.",
        "Resume with the versions and settings of run.json, or begin a new run with another --out.",
    ),
    "E0205": (
        "The runs were made on different tasks, suites, seeds or budgets.",
        "Compare runs of the same plan; run.json has each one's.",
    ),
    "E0206": (
        "Episodes were run before their plan was registered: a plan that is written after its results predicts nothing.",
        "Name a new --out, and run them again under the registered plan.",
    ),
    "E0300": (
        "A file or folder that was named cannot be used.",
        "Read what the error says of it; `apex doctor` looks at folders and tools.",
    ),
    "E0301": (
        "The plugin is here, and the packages that it needs are not.",
        "Run the pip line of the error, with the Python that runs apex. `apex doctor` lists all extras.",
    ),
    "E0302": (
        "No permission, a full disk, a file where a folder should be, or another process that works on this run.",
        "Choose another --out, make room, or wait for the other process.",
    ),
    "E0303": (
        "A file was edited, cut off, or written by another version; a result does not follow from its runs; or the folder is no"
        " run folder.",
        "Name a folder with a run.json; restore the file, or run again.",
    ),
    "E0304": (
        "A plugin raises, hangs, or gives something that it must not, while it is loaded or asked.",
        "Report it to its author with the error; leave it out meanwhile: -p no:NAME.",
    ),
    "E0305": (
        "Two installed packages bring the same name.",
        "Leave one of the two out: -p no:NAME.",
    ),
    "E0306": (
        "The suite's tasks need something that this machine or this Python lacks.",
        "Read what the error says; try `apex suite check`.",
    ),
    "E0307": (
        "A crash in the middle of a write on a bad disk, an edited file, another version, or a second process.",
        "Do as the error says. A damaged journal is not mended silently: keep it for inspection and begin anew.",
    ),
    "E0308": (
        "A live model or a foreign repository brings code that is not yours, and nothing on this machine holds it; or the"
        " sandbox that was named is not installed.",
        "apex doctor --security says what there is. Install bubblewrap, use Linux with Landlock, or accept that this code can"
        " do what you can: --allow-weaker-sandbox.",
    ),
    "E0309": (
        "A cluster whose address is wrong, that is busy or gone, or whose nodes have other versions than this machine; or "
        "an executor that gives results twice, invents or loses them.",
        "Read what the error says; then the same command, or apex resume RUN, on the cluster or with --executor local.",
    ),
    "E0320": (
        "The shared file of the day or the run is locked, damaged, not writable, or on a file system without locks.",
        "Put it on a local disk with free space, end what holds it, or choose another file; nothing is spent until then.",
    ),
    "E0330": (
        "A wrong path, a folder instead of a file, a download that broke off, an embedding model, an architecture that the"
        " library does not know, or too little memory.",
        "apex doctor --backend NAME:MODEL says which. Download the file again, take a smaller quantisation or fewer"
        " instances, or name a language model.",
    ),
    "E0331": (
        "The server is not started, the address or the port is wrong, the key is refused, or the model is not there.",
        "apex doctor --backend NAME:MODEL looks at server, key, model and context one by one.",
    ),
    "E0400": ("Something that an agent, a tool or a carrier did.", "Read the cause; resume with --retry-failed."),
    "E0401": (
        "An agent or a plugin sent an object that is no JSON: a set, bytes, NaN, an instance.",
        "Send text, numbers, lists and tables only.",
    ),
    "E0402": (
        "An agent or a plugin sent a large blob instead of a pointer to it.",
        "Put it into a blob store and send its key.",
    ),
    "E0403": (
        "A process or a connection that carried messages ended.",
        "Read the log for what ended it; resume with --retry-failed.",
    ),
    "E0404": (
        "The model's server or process failed in a call; the kind of failure stands beside it.",
        "apex explain KIND, for instance apex explain rate_limited; apex doctor --backend NAME:MODEL looks at the server.",
    ),
    "E0405": (
        "An impossible key, a missing blob, or a store without room.",
        "Make room, or give the store a larger limit.",
    ),
    "E0406": (
        "A plugin or a program settles what was never reserved, or reserves what is no amount.",
        "Report it to the author of the code that called the ledger.",
    ),
    "E0407": (
        "No disk space, no permission, or task code that damaged its own folder.",
        "Make room in the temporary folder (TMPDIR); `apex doctor` looks at it.",
    ),
    "E0408": (
        "An agent or a plugin waits for something that nobody will do; seen in virtual time, where waiting costs nothing.",
        "Report it to the author of what waits. With --real-time the run would hang.",
    ),
    "E0409": (
        "The topology has no path for the team's first message, or a policy refuses it.",
        "Take another topology or team, or leave the policy out.",
    ),
    "E0411": (
        "The repository has no such reference or path, is locked, or git refuses what it was asked.",
        "The stable code in the error says which; look at the repository with git itself.",
    ),
    "E0500": (
        "An agent card is not signed by a key of the store, an attack was not refused with its code, or a file of a finished"
        " run is not what it was.",
        "The error says which. Do not talk to the card's agent; report the attack with its name and seed; run again, or"
        " restore the run's folder.",
    ),
    "E0600": (
        "The ceiling of the run or of the day, which several processes may share, is used up.",
        "Wait for the next day, or give a higher ceiling; then apex resume RUN.",
    ),
}
"""Code -> (usual causes, what to do)."""

FAILURES: Final[dict[str, tuple[str, str]]] = {
    "unknown": ("A call failed, and nothing tells how.", "Read the cause in calls.jsonl and the server's log."),
    "connect": ("The request never got there: refused, no such host, no route, TLS.", ""),
    "auth": ("The server refuses the key: none, a wrong one, or one without the right to this model.", ""),
    "not_found": ("The server has no such model, or there is nothing at this address.", ""),
    "rate_limited": ("The server limits the rate (status 429). The call is made again after a while, a few times.", ""),
    "server": ("The server failed while it had the request, which may have been charged.", ""),
    "unavailable": ("The server says that it did not begin: overloaded, or starting (status 503).", ""),
    "unloaded": (
        "The model was unloaded before it had answered anything, by its server or because memory ran short.",
        "",
    ),
    "circuit_open": ("Not asked, because the last calls to this backend failed.", ""),
    "context_exceeded": ("The prompt does not fit into the context, and was refused.", ""),
    "context_truncated": ("The prompt did not fit, and the server answered a part of it; that was charged.", ""),
    "truncated": ("The connection ended in the middle of an answer.", ""),
    "malformed": ("The answer cannot be read: not JSON, not this protocol, or larger than allowed.", ""),
    "incomplete": ("A stream ended without saying that it was at its end.", ""),
    "first_token_timeout": ("No token came within the time for the first one.", ""),
    "idle_timeout": ("Too long between two pieces of data. Keep-alive comments are no data.", ""),
    "total_timeout": ("The whole call took longer than it may.", ""),
    "cancelled": ("The caller took the call back: an interruption, a closed backend, an episode that ended.", ""),
    "worker_died": ("The process that had the request is gone: a crash in native code, no memory, a signal.", ""),
    "not_recorded": (
        "The cassette has no answer to this prompt: it was recorded with another model, team, suite, seed or version.",
        "",
    ),
}
"""Kind of a failed model call -> (meaning, what to do; where that is empty it is ``Failure.remedy``)."""

DENIALS: Final[dict[str, tuple[str, str]]] = {
    "tok_headroom": (
        "The scope has fewer tokens left than the call could use: its prompt, with the margin, and its whole answer.",
        "Nothing, if the budget is meant to bind. Otherwise give more tokens, or let agents ask for shorter answers.",
    ),
    "ms_headroom": (
        "The scope has less time left than the call could take.",
        "Give the scope more milliseconds, or take a faster model.",
    ),
    "policy:no_estimate": (
        "Nobody could say how many tokens the call needs: a tokenizer fails or gives nonsense.",
        "Look at the backend: apex doctor --backend NAME:MODEL.",
    ),
    "policy:no_clock": ("The clock does not tell the time, so nothing can expire.", "Report it with the log."),
    "policy:no_ledger": ("The ledger fails or is not there.", "Report it with the log."),
    "policy:closed": ("The guard was closed: the run is over.", "Nothing: a call came too late."),
    "policy:scope_error": (
        "A scope raised, or its ceiling is None, NaN, negative or absurd. Null is never unlimited.",
        "Correct the scope's ceiling in the settings, or leave the scope out.",
    ),
    "policy:ledger_recovering": ("The ledger is being rebuilt from its log.", "Wait: it lasts moments."),
    "policy:ledger_damaged": (
        "The ledger's log does not fit together; a ledger that has forgotten would overspend.",
        "Keep the log for inspection, and begin with a new one.",
    ),
    "policy:store_locked": (
        "Another process holds the shared file for too long.",
        "End what holds it, or put it on a local disk: a network's locks may not work.",
    ),
    "policy:store_damaged": (
        "The shared file is no ledger, or is damaged.",
        "Keep it for inspection and choose another; what it had counted is lost to the ceiling.",
    ),
    "policy:store_unwritable": (
        "The shared file or the ledger's log cannot be written: permissions, a full disk, a read-only file system.",
        "Make room, or choose a file that can be written to; `apex doctor` looks at the folders.",
    ),
    "policy:store_version": (
        "The shared file was written by another version of APEX.",
        "Use that version, or choose another file.",
    ),
    "policy:refill_timeout": (
        "More of a shared ceiling was asked for, and the file did not answer in time.",
        "See whether its disk hangs; put it on a local one.",
    ),
    "policy:refill_failed": (
        "More of a shared ceiling was asked for, and the scope failed.",
        "Read the log for what it raised; report it to the scope's author.",
    ),
}
"""Reason of a denial, as in calls.jsonl -> (meaning, what to do)."""

OTHER_POLICY: Final = (
    "A policy denied the call, and this is the reason that it gives.",
    "See which policies are on (apex config show), and what the policy's author says of it.",
)
