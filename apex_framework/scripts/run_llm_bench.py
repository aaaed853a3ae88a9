"""``python -m apex_framework.scripts.run_llm_bench --n=200 --pooling=on --out artifacts``: requests with a pool and without.

Writes ``llm_pool_on.jsonl`` or ``llm_pool_off.jsonl``, or both, into the folder: a row for every request with its
``pool_acquire_ms``, the percentiles, and ``pool_conn_in_use``, the most while eight requests run at once, measured apart.
``--model MODEL`` asks that model of the server at ``--backend`` (openai); without it the server is ours, on loopback.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import click

from ..benches.pooling import CONTENDERS
from ..cli.bench import MANY, Artifact, measure
from ..cli.context import Context
from ..errors import UsageError


@click.command()
@click.option("--model", help="Model of the server; without it and --backend: a test server on loopback.")
@click.option("--backend", metavar="NAME", help="Kind of server: openai, vllm, llama_server, ollama (openai).")
@click.option("--n", "-n", type=MANY, default=200, show_default=True, help="Requests of each contender.")
@click.option("--pooling", default="on,off", show_default=True, metavar="on|off|on/off", help="With a pool, without.")
@click.option("--out", default="artifacts", show_default=True, type=click.Path(path_type=Path, file_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Rows as JSON on stdout.")
@click.pass_obj
def main(
    context: Context, /, model: str | None, backend: str | None, n: int, pooling: str, out: Path, as_json: bool
) -> None:
    """Time of a request and until it has a connection, with a pool of connections and without."""
    context.json = context.json or as_json
    asked = [part.strip() for part in pooling.replace("/", ",").split(",") if part.strip()]
    if not asked or set(asked) - set(CONTENDERS):
        raise UsageError(f"--pooling must be on, off or on,off, not {pooling!r}")
    if model is not None and not model.strip():
        raise UsageError("--model is empty", "name a model of the server, or leave it out")
    named = None if model is None and backend is None else f"{backend or 'openai'}{f':{model}' if model else ''}"
    args = SimpleNamespace(n=n, pooling=",".join(asked), backend=named, singly=True, say=context.say)
    with ExitStack() as stack:
        files = {
            CONTENDERS[how]: stack.enter_context(Artifact(out, f"llm_pool_{how}.jsonl")) for how in dict.fromkeys(asked)
        }
        for row in measure(context, "pooling", args):
            of_all = row["metric"] == "saving p50" or row["contender"] not in files
            for artifact in files.values() if of_all else [files[str(row["contender"])]]:
                artifact.write(row)


if __name__ == "__main__":
    from ..cli.boundary import run

    sys.exit(run(sys.argv[1:], main, "run_llm_bench"))
