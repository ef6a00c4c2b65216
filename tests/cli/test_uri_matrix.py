"""Every file and folder that a command takes may be a URI, or is refused as one in a clear line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from typer.main import get_command

from rayner.cli.app import app
from rayner.config.recipe_files import dump_recipe
from rayner.tasks.checkpoint import save_checkpoint
from rayner.tasks.registry import load_recipe, parse_recipe, train_task
from tests.object_storage import BUCKET, Storage

Run = Callable[..., tuple[int, str, str]]
NAMED = {"gout": "C1", "asthma": "C2"}
HOME = f"s3://{BUCKET}/matrix"
OUTPUTS = f"{HOME}/outputs"
ABSENT = f"s3://{BUCKET}/absent/thing"
CREDENTIALS = "s3://AKID:verysecret@tests/thing"


class Use(NamedTuple):
    """A command with URIs: what each of its parameters is given, and what is in place of its work.

    `reads` are names below `HOME`, `writes` below `OUTPUTS`; `rest` and `plain` are given as they are. A
    command that starts Ray is tested at URIs elsewhere (`instead`), and here only that it gets as far.
    """

    command: str
    reads: Mapping[str, str] = {}
    writes: Mapping[str, str] = {}
    rest: tuple[str, ...] = ()
    instead: str | None = None
    plain: Mapping[str, str] = {}

    def arguments(self, changed: Mapping[str, str] | None = None) -> list[str]:
        given = {name: f"{HOME}/{value}" for name, value in self.reads.items()}
        given |= {name: f"{OUTPUTS}/{value}" for name, value in self.writes.items()}
        given |= {**self.plain, **(changed or {})}
        options, positional = [], []
        for parameter in parameters_of(self.command):
            if (value := given.get(parameter.name)) is not None:
                is_option = parameter.param_type_name == "option"
                (options if is_option else positional).extend(
                    [parameter.opts[0], value] if is_option else [value]
                )
        return [*self.command.split(), *positional, *self.rest, *options]


FEW = ("--set", "training.epochs=1")
USES = (
    Use("train", {"recipe": "recipe.yaml"}, {"out": "run"}, ("--workers", "0", *FEW)),
    Use(
        "train",
        {"recipe": "adding.yaml", "add_types": "recognizer"},
        {"out": "added"},
        ("--workers", "0", *FEW),
    ),
    Use(
        "tune",
        {"recipe": "recipe.yaml"},
        {"out": "sweep"},
        instead="rayner.runtime.sweeps.sweep.sweep",
        plain={"space": "{space}"},
    ),
    Use(
        "evaluate",
        {"checkpoint": "run/best", "corpus": "corpus.jsonl", "types": "types.yaml"},
        {"out": "evaluation"},
    ),
    Use("evaluate", {"checkpoint": "standardizer", "corpus": "mentions.jsonl", "index": "index"}),
    Use("evaluate", {"checkpoint": "gaussian", "corpus": "corpus.jsonl", "support": "corpus.jsonl"}),
    Use("report", {"run_folder": "run"}, {"out": "page.html"}),
    Use("predict", {"checkpoint": "run/best", "types": "types.yaml"}, {}, ("Python is here.",)),
    Use("predict", {"checkpoint": "standardizer", "index": "index"}, {}, ("gout",)),
    Use("predict", {"checkpoint": "gaussian", "support": "corpus.jsonl"}, {}, ("Python is here.",)),
    Use(
        "annotate",
        {"checkpoint": "run/best", "inputs": "corpus.jsonl", "types": "types.yaml"},
        {"out": "annotated"},
        ("--workers", "0", "--jsonl", "--brat"),
    ),
    Use(
        "annotate",
        {"checkpoint": "gaussian", "inputs": "corpus.jsonl", "support": "corpus.jsonl"},
        {"out": "annotated_by_gaussian"},
        ("--workers", "0"),
    ),
    Use(
        "standardize",
        {"checkpoint": "standardizer", "file": "mentions.jsonl", "index": "index"},
        {"out": "answers.jsonl"},
    ),
    Use("serve", {"config": "serve.yaml"}, instead="rayner.serving.launch.serve_forever"),
    Use("doctor", {}, {"out": "anywhere"}),
    Use("corpus convert", {"inputs": "corpus.jsonl"}, {"out": "converted"}),
    Use("corpus check", {"paths": "corpus.jsonl", "recipe": "recipe.yaml"}),
    Use(
        "corpus label",
        {"path": "corpus.jsonl", "dictionary": "names.tsv", "phrases": "phrases.tsv"},
        {"out": "labelled"},
    ),
    Use(
        "corpus contexts",
        {"paths": "corpus.jsonl", "prompts": "prompts.yaml", "leave_out": "other.jsonl"},
        {"out": "contexts"},
    ),
    Use(
        "corpus contexts",
        {"paths": "corpus.jsonl", "checkpoint": "recognizer"},
        {"out": "contexts_of_corpus"},
        ("--minimum-gain", "0", "--method", "before", "--method", "after"),
    ),
    Use("corpus resolve", {"inputs": "corpus.jsonl"}, {"out": "stories"}, ("--resolver", "rules")),
    Use("corpus rank", {"paths": "corpus.jsonl", "checkpoint": "run/best"}, {"out": "ranking"}),
    Use("kb convert", {"inputs": "base.jsonl"}, {"out": "base.parquet"}),
    Use("kb check", {"inputs": "base.jsonl"}),
    Use("kb candidates", {"checkpoint": "standardizer"}, {"out": "candidates.jsonl"}),
    Use("kb rerank", {"checkpoint": "standardizer", "ranker": "ranker"}, {"out": "reranked"}),
    Use(
        "index build",
        {"checkpoint": "standardizer", "files": "base.jsonl", "mentions": "mentions.jsonl"},
        {"out": "built"},
    ),
    Use("index add", {"index": "index", "files": "more.jsonl", "checkpoint": "standardizer"}),
    Use("index remove", {"index": "index"}, {}, ("C2",)),
    Use("index list", {"index": "index"}),
)
FINISHED = {"best": "best.yaml", "winner": {"checkpoint": "best"}}
REFUSED = {("tune", "space"): "is code", ("quickstart", "out"): "name a folder of this machine"}
"""What is refused as a URI, and a part of the line that says so."""


@cache
def all_commands() -> Any:
    return get_command(app)


def parameters_of(command: str) -> list[Any]:
    found = all_commands()
    for name in command.split():
        found = found.commands[name]
    return found.params


def commands() -> Iterator[str]:
    for name, command in all_commands().commands.items():
        yield from (f"{name} {inner}" for inner in getattr(command, "commands", ()))
        if not hasattr(command, "commands"):
            yield name


PLACES = {"INPUT", "DIR", "FILE", "PATH", "CHECKPOINT", "RUN", "RECIPE", "CONFIG", "CORPUS", "KB", "TEXTS"}
PLACES |= {"INDEX", "URI", "SPACE", "RANKER"}


def takes_a_place(command: str, parameter: Any) -> bool:
    """By what its help calls the value; a URL's path of `serve` is none, and `tune --out` has no word."""
    if (command, parameter.name) == ("serve", "route_prefix"):
        return False
    shown = (parameter.metavar or "").strip("[].")
    return shown in PLACES or parameter.name in ("out", "recipe")


def write_inputs(folder: Path, examples: Path, trained: Path) -> None:
    """All that the commands read, as the files that `USES` name."""
    corpus = (examples / "dev.jsonl").read_text("utf-8").splitlines(keepends=True)
    texts = {
        "corpus.jsonl": "".join(corpus[:6]),
        "other.jsonl": corpus[-1],
        "base.jsonl": lines(*({"entity_id": i, "name": name} for name, i in NAMED.items())),
        "more.jsonl": lines({"entity_id": "C3", "name": "measles"}),
        "mentions.jsonl": lines(
            {"mention": "podagra", "entity_id": "C1"}, {"mention": "flu", "entity_id": None}
        ),
        "held_out.jsonl": lines(
            *({"mention": f"{name} {n}", "entity_id": i} for n in range(12) for name, i in NAMED.items())
        ),
        "names.tsv": "Software\tPython\nSoftware\tRedis\n",
        "phrases.tsv": "the phrase\n",
        "adding.yaml": "task: recognizer\ntypes: [{name: Language, description: programming languages}]\n"
        f"corpus: {{train: [{HOME}/corpus.jsonl], dev: [{HOME}/corpus.jsonl]}}\n",
        "prompts.yaml": "kinds: [{name: a, prompt: 'Who uses {entity}?', templates: ['We use {entity}.']}]\n",
        "types.yaml": "[{name: Language, description: programming languages}]\n",
        "serve.yaml": f"checkpoint: {HOME}/pipeline.yaml\n"
        f"knowledge_bases: {{kb: {{index: {HOME}/index, standardizer: {HOME}/standardizer}}}}\n",
        "pipeline.yaml": "stages: [{checkpoint: run/best}, {checkpoint: standardizer, index: index}]\n",
        "space.py": 'def space(): return {"training.learning_rate": [1e-3]}\n',
    }
    for name, text in texts.items():
        (folder / name).write_text(text, "utf-8")
    changes = ["encoder=random:16x1", *(f"corpus.{part}=[{HOME}/corpus.jsonl]" for part in ("train", "dev"))]
    recipe = load_recipe(examples / "recipe.yaml", [*changes, "scaling.workers=0"])
    (folder / "recipe.yaml").write_text(dump_recipe(recipe), "utf-8")
    shutil.copytree(trained, folder / "run")
    torch.manual_seed(1)
    values: Mapping[str, Mapping[str, Any]] = {
        "standardizer": {
            "knowledge_base": {"paths": [f"{HOME}/base.jsonl"]},
            "mentions": {"train": [f"{HOME}/mentions.jsonl"], "dev": [f"{HOME}/held_out.jsonl"]},
        },
        "ranker": {"pairs": {"train": ["nowhere"]}},
        "recognizer": {
            "corpus": {"train": ["nowhere"]},
            "types": [{"name": "Software", "description": "programs"}],
            "windows": {"context": 8},
            "context": {"methods": ["bm25"]},
        },
        "gaussian": {"corpus": {"train": ["nowhere"]}, "types": [{"name": "Software"}]},
    }
    for task, parts in values.items():
        small = parse_recipe({"task": task, "encoder": "random:32x2", **parts}, task)
        learner = train_task(small)
        save_checkpoint(folder / task, learner, learner.build(), {})


def lines(*rows: Mapping[str, Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture(scope="module")
def uploaded(
    s3_server: Storage, examples: Path, trained: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """What the commands read, below `HOME`; the folder of this machine that it was made in."""
    import obstore

    from rayner.runtime.linking.indexes import build
    from tests.object_storage import environment

    folder = tmp_path_factory.mktemp("matrix")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment(s3_server.url).items():
            patch.setenv(name, value)
        patch.setenv("RAYNER_LOCAL", str(tmp_path_factory.mktemp("local")))
        write_inputs(folder, examples, trained)
        for path in folder.rglob("*"):
            if path.is_file():
                obstore.put(s3_server.store(), f"matrix/{path.relative_to(folder).as_posix()}", path)
        build(Path(f"{HOME}/standardizer"), [Path(f"{HOME}/base.jsonl")], Path(f"{HOME}/index"))
    return folder


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("machine")


@pytest.fixture
def on_one_machine(machine: Path, storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """What commands fetch is kept: none fetches it again. After `storage`, which sets a folder of its own."""
    monkeypatch.setenv("RAYNER_LOCAL", str(machine))


@pytest.fixture
def here(
    storage: Storage, uploaded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], str]]:
    """An empty current folder, in which a command with URIs writes nothing."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    yield lambda text: text.format(space=uploaded / "space.py")
    assert list(folder.iterdir()) == []


def case(given: Any) -> str | None:
    return str(given.command).replace(" ", "-") if isinstance(given, Use) else None


def test_every_file_and_folder_of_every_command_is_told_here() -> None:
    named = {(use.command, name) for use in USES for name in (*use.reads, *use.writes)} | set(REFUSED)
    taken = {(c, p.name) for c in commands() for p in parameters_of(c) if takes_a_place(c, p)}
    assert taken == named


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("use", USES, ids=case)
def test_a_command_works_at_uris(
    use: Use,
    storage: Storage,
    here: Callable[[str], str],
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reached: list[Any] = []
    if use.instead:
        module, _, name = use.instead.rpartition(".")
        monkeypatch.setattr(import_module(module), name, lambda *given: reached.append(given) or FINISHED)
    before = set(storage.objects("matrix/outputs/"))
    status, out, err = run(*map(here, use.arguments()), "--json")
    assert status in ({0, 1} if use.command == "corpus check" else {0}), err
    assert bool(reached) == bool(use.instead)
    # Where on this machine something lies is of no use to whoever gets this.
    assert str(tmp_path / "machine") not in out
    if use.writes and not use.instead and use.command != "doctor":
        assert set(storage.objects("matrix/outputs/")) - before, "nothing was written"


@pytest.mark.parametrize(("command", "name"), REFUSED)
def test_what_takes_no_uri_says_so(
    command: str, name: str, here: Callable[[str], str], run: Run, examples: Path
) -> None:
    given = {"out": f"{OUTPUTS}/x", "space": f"{HOME}/space.py"}[name]
    arguments = [given, examples / "recipe.yaml"] if name == "space" else ["--out", given]
    status, out, err = run(command, *arguments)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"error: {given}: ")
    assert REFUSED[command, name] in err


READ = [(use, name) for use in USES for name in use.reads]
PLACED = [(use, name) for use in USES for name in (*use.reads, *use.writes)]


@pytest.mark.usefixtures("on_one_machine")
@pytest.mark.parametrize(("use", "name"), READ, ids=case)
def test_what_is_not_there_is_named_in_one_line(
    use: Use, name: str, here: Callable[[str], str], run: Run
) -> None:
    status, out, err = run(*map(here, use.arguments({name: ABSENT})))
    assert (status, out) == (2, "")
    assert err.splitlines()[-1].startswith("error: ")
    assert ABSENT in err.splitlines()[-1]


@pytest.mark.usefixtures("on_one_machine")
@pytest.mark.parametrize(("use", "name"), PLACED, ids=case)
def test_credentials_are_refused_and_not_shown(
    use: Use, name: str, here: Callable[[str], str], run: Run
) -> None:
    status, out, err = run(*map(here, use.arguments({name: CREDENTIALS})))
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert "holds credentials" in err
    assert "verysecret" not in err
