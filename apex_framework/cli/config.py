"""``apex config``: the settings in force, and the schema of the file they are written in."""

from __future__ import annotations

from pathlib import Path

import click

from .context import Context


@click.group()
def config() -> None:
    """Show the settings in force and where each came from."""


@config.command()
@click.option("--origin", is_flag=True, help="Also say where each value came from.")
@click.option("--config", "path", type=click.Path(path_type=Path), help="A TOML or YAML file instead of apex.toml.")
@click.pass_obj
def show(context: Context, origin: bool, path: Path | None) -> None:
    """Show the settings in force: flag > environment > file > default."""
    from ..config import load_settings

    loaded = load_settings(config=path)
    values = loaded.settings.model_dump(mode="json")
    if context.json:
        context.emit({k: {"value": v, "origin": loaded.origins[k]} for k, v in values.items()} if origin else values)
        return
    width = max(map(len, values))
    lines = [f"{k:<{width}}  {_text(v)}" + (f"  ({loaded.origins[k]})" if origin else "") for k, v in values.items()]
    context.emit(values, "\n".join(lines))


@config.command()
@click.pass_obj
def schema(context: Context) -> None:
    """Print the JSON schema of a configuration file."""
    import json

    from ..config import json_schema

    context.emit(json_schema(), json.dumps(json_schema(), indent=2))


def _text(value: object) -> str:
    if isinstance(value, dict):
        return ",".join(f"{k}={v}" for k, v in value.items())
    if isinstance(value, list):
        return " ".join(str(v) for v in value)
    return "" if value is None else str(value)
