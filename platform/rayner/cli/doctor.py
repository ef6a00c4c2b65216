"""The command `rayner doctor`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rayner.cli.options import Json, given_place
from rayner.cli.printing import logs_on_stderr, print_result
from rayner.cli.tables import finding_line


def doctor(
    out: Annotated[
        str | None,
        typer.Option(
            metavar="URI",
            parser=given_place,
            help="Check that this folder or URI can be written to; if unset, the one for runs.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what is installed and usable here. Status 1 if something keeps rayner from working."""
    with logs_on_stderr():
        from rayner.runtime.doctor.doctor import examine

        found = examine(out)
    print_result(found, as_json, _show)
    if not found["usable"]:
        raise typer.Exit(1)


def _show(found: Mapping[str, Any]) -> None:
    table = Table(show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in _rows(found):
        table.add_row(name, Text(text))
    console = Console()
    console.print(table)
    for finding in sorted(found["findings"], key=lambda finding: finding["severity"]):
        console.print(finding_line(finding), soft_wrap=True)
    console.print("usable" if found["usable"] else "not usable as it is", style="bold")


def _rows(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """A name and a line for each check; those that failed have findings instead."""
    lines = {
        "versions": _pairs,
        "faiss": lambda facts: _pairs(facts) if facts else "none; indexes are searched exactly",
        "extras": _extras,
        "encoder": lambda facts: f"{facts['name']}, {'present' if facts['folder'] else 'not installed'}",
        "gpus": lambda facts: "\n".join(map(_gpu, facts)) or "none",
        "cpu": _processor,
        "precision": _precision,
        "memory": lambda facts: _room(facts["total_bytes"], facts["available_bytes"], "available"),
        "shared_memory": lambda facts: (
            f"{facts['folder']}: {_room(facts['total_bytes'], facts['free_bytes'], 'free')}"
        ),
        "storage": _storage,
        "ray": _ray,
    }
    return [
        (name.replace("_", " "), line(found[name])) for name, line in lines.items() if found[name] is not None
    ]


def _pairs(facts: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value or 'missing'}" for name, value in facts.items())


def _extras(facts: Mapping[str, bool]) -> str:
    missing = [name for name, there in facts.items() if not there]
    installed = ", ".join(name for name, there in facts.items() if there) or "none"
    return installed + (f"; not installed: {', '.join(missing)}" if missing else "")


def _gpu(gpu: Mapping[str, Any]) -> str:
    bfloat16 = "bfloat16" if gpu["bfloat16"] else "no bfloat16"
    return f"{gpu['name']}, {_room(gpu['total_bytes'], gpu['free_bytes'], 'free')}, {bfloat16}"


def _processor(facts: Mapping[str, Any]) -> str:
    omp = facts["omp_num_threads"] or "unset"
    return f"{facts['cores']} cores; threads of torch: {facts['torch_threads']} (OMP_NUM_THREADS {omp})"


def _precision(facts: Mapping[str, Any]) -> str:
    times = {name: facts[f"{name}_seconds"] for name in ("float32", "bfloat16")}
    shown = ", ".join(f"{name} {1000 * seconds:.2f} ms" for name, seconds in times.items())
    return f"{facts['faster']} is faster on this CPU ({shown} for one matrix product)"


def _storage(facts: Mapping[str, Any]) -> str:
    room = f", {_gib(facts['free_bytes'])} free" if facts["free_bytes"] is not None else ""
    return f"{facts['out']}: {'writable' if facts['writable'] else 'not writable'}{room}"


def _ray(facts: Mapping[str, Any]) -> str:
    address = facts["address"] or "no RAY_ADDRESS: a Ray of this machine"
    token = f"token from {facts['token']}" if facts["token"] else "no token"
    return f"{address}; RAY_AUTH_MODE {facts['authentication'] or 'unset'}, {token}"


def _room(total: int, left: int | None, word: str) -> str:
    return _gib(total) + ("" if left is None else f", {_gib(left)} {word}")


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"
