"""Pre-training on coreference chains: rows, masking, the contrast, and what its checkpoint is good for."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from rayner.data.schema import Document, Mention, chained
from rayner.errors import CheckpointError, CorpusError, InputError, RecipeError
from rayner.models.encoder import load_encoder
from rayner.runtime.training.dev_answers import score
from rayner.runtime.training.train import train
from rayner.tasks.base import Progress
from rayner.tasks.chains.story_rows import label, rows
from rayner.tasks.chains.task import ChainsTask, mention_vectors
from rayner.tasks.checkpoint import load_checkpoint
from rayner.tasks.registry import parse_recipe, train_task
from tests.runtime.training.several_workers import tiny_recipe
from tests.tasks.chains.small_chains import chains_recipe, story

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "coref_infonce.json").read_text())
START = Progress(0, 10, 0, 1)


def task(folder: Path, **parts: Any) -> ChainsTask:
    found = train_task(parse_recipe(chains_recipe(folder, **parts), "recipe"))
    assert isinstance(found, ChainsTask)
    return found


def words_at(made: ChainsTask, document: Document, tokens: str) -> list[tuple[int, str]]:
    """The chain and the text of the tokens of each mention, by the rows of a document."""
    found = []
    windows = made.windows_of(document)
    for row, window in zip(made.examples([document]), windows, strict=True):
        for chain, (first, last) in zip(row["chain"], np.reshape(row[tokens], (-1, 2)), strict=True):
            words = window.subwords.words
            start = words[window.subwords.word_of[window.subword_at(first + 1)]][0]
            end = words[window.subwords.word_of[window.subword_at(last + 1)]][1]
            found.append((int(chain), document.text[start:end]))
    return found


def test_each_mention_of_a_chain_is_in_one_window_and_keeps_its_chain(tmp_path: Path) -> None:
    made, document = task(tmp_path), story(3)
    assert len(made.windows_of(document)) > 2
    expected = [(label("story3", m.chain or ""), document.text[m.start : m.end]) for m in chained(document)]
    assert sorted(words_at(made, document, "span")) == sorted(expected)
    assert len({chain for chain, _ in expected}) == 2


def test_a_book_takes_as_long_as_its_chapters_together(tmp_path: Path) -> None:
    """Each window looked through all mentions of the document: of 80,000 that took minutes."""
    count, text = 50_000, "Ada saw "
    mentions = (Mention(i * len(text), i * len(text) + 3, "mention", chain=str(i % 7)) for i in range(count))
    book = Document("book", text * count, tuple(mentions))
    windows = task(tmp_path).windows_of(book)
    assert len(windows) > 5000
    begun = time.process_time()
    found = list(rows(book, windows))
    assert time.process_time() - begun < 3
    assert sum(len(row["chain"]) for row in found) == count


def test_a_mention_that_its_window_cuts_is_told_and_no_other(tmp_path: Path) -> None:
    made, words = task(tmp_path), 14
    cut = []
    for before in range(24):
        begin, text = 3 * before, "so " * before + "the lamp" + " by" * (words - 2)
        mention = Mention(begin, len(text), "mention", chain="1", head=(begin + 4, begin + 8))
        other = Mention(begin, begin + 3, "mention", chain="1")
        found = list(made.examples([Document("d", text, (other, mention))]))
        spans = np.concatenate([np.reshape(row["span"], (-1, 2)) for row in found])
        cut.append(words + 1 - int((spans[:, 1] - spans[:, 0] + 1).sum()))
        told = [line for row in found for line in row["rejects"]]
        assert told == ["d: a mention is read in part: its window cuts it"] * (cut[-1] > 0)
    assert {0, 1, 2} <= set(cut)


def test_a_head_is_the_annotated_one_or_found_by_rule(tmp_path: Path) -> None:
    made, document = task(tmp_path), story(8)
    assert (label("story8", "2"), "lamp") in words_at(made, document, "head")
    at = document.text.index("hall")
    mentions = [replace(m, head=(at, at + 4)) if m.chain == "2" else m for m in document.mentions]
    assert (label("story8", "2"), "hall") in words_at(
        made, replace(document, mentions=tuple(mentions)), "head"
    )


def test_a_head_outside_its_mention_is_told_and_found_by_rule(tmp_path: Path) -> None:
    text = "the lamp " + "so " * 40 + "it"
    lamp = Mention(0, 8, "mention", chain="1", head=(len(text) - 2, len(text)))
    document = Document("d", text, (lamp, Mention(len(text) - 2, len(text), "mention", chain="1")))
    assert [word for _, word in words_at(task(tmp_path), document, "head")] == ["lamp", "it"]
    (told,) = (line for row in task(tmp_path).examples([document]) for line in row["rejects"])
    assert told == "d: 0-8: its head lies outside"


def test_parts_of_a_group_are_one_story_and_their_chains_are_not_mixed(tmp_path: Path) -> None:
    made = task(tmp_path)
    parts = [replace(story(i), group="book") for i in (0, 1)]
    rows = list(made.examples(parts))
    assert {row["group"] for row in rows} == {"book"}
    assert len({row["story"] for row in rows}) == 1
    assert len({chain for row in rows for chain in row["chain"].tolist()}) == 4


def test_a_document_without_a_chain_of_two_is_named_and_left_out(tmp_path: Path) -> None:
    alone = Document("d", "Ada slept", (Mention(0, 3, "x", chain="1"),))
    with pytest.raises(CorpusError, match="d: no chain of two mentions"):
        list(task(tmp_path).examples([alone]))


def test_one_story_is_too_few(tmp_path: Path) -> None:
    made = task(tmp_path / "a", corpus={"train": [str(tmp_path / "one.jsonl")]})
    source = (tmp_path / "a" / "train.jsonl").read_text().splitlines()
    (tmp_path / "one.jsonl").write_text(source[0] + "\n")
    with pytest.raises(CorpusError, match="1 of its stories have a chain of two mentions"):
        list(made.items("train"))


def test_steps_that_a_story_has_for_itself_are_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = task(tmp_path)  # of 60 sub-words a step
    lengths, groups = np.full(20, 30), np.array(["novel"] * 17 + [f"story{i}" for i in range(3)])
    model = torch.nn.Identity()
    short: Any = SimpleNamespace(lengths=lengths[14:], groups=groups[14:])
    made.prepare_epoch(model, short, 0)
    assert not caplog.records
    every: Any = SimpleNamespace(lengths=lengths, groups=groups)
    for epoch in range(2):
        made.prepare_epoch(model, every, epoch)
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("7 of 10 steps hold one story alone")
    assert "the longest story has 510 of 600 sub-words" in line


def test_stories_of_dev_are_not_learned_from(tmp_path: Path) -> None:
    made = task(tmp_path)
    both = [str(tmp_path / "train.jsonl"), str(tmp_path / "dev.jsonl")]
    made = task(tmp_path, corpus={"train": both})
    ids = [{d.document_id for d in made.items(split)} for split in ("train", "dev")]
    assert len(ids[0]) == 14
    assert not ids[0] & ids[1]


@pytest.mark.parametrize("tokens", ["head", "span"])
@pytest.mark.parametrize("mentions", ["none", "head", "span"])
def test_what_is_masked_is_of_the_rate_and_the_kind(tmp_path: Path, tokens: str, mentions: str) -> None:
    masking = {"mentions": mentions, "mention_rate": 1.0, "token_rate": 0.0}
    made = task(tmp_path, masking=masking, model={"tokens": tokens})
    rows = list(made.examples([story(8)]))
    batch = made.collate(rows, [(1, 0, i) for i in range(len(rows))])
    plain = made.unmasked(rows)
    hidden = [
        int(1 + place + row * plain.ids.shape[1])
        for row, example in enumerate(rows)
        for first, last in np.reshape(example[mentions] if mentions != "none" else [], (-1, 2))
        for place in range(int(first), int(last) + 1)
    ]
    assert (batch.ids == made.tokenizer.mask_id).flatten().nonzero().flatten().tolist() == sorted(set(hidden))
    changed = (batch.ids != plain.ids).flatten().nonzero().flatten().tolist()
    assert changed == sorted(set(hidden))
    assert not len(batch.targets)


def test_masking_is_drawn_from_the_seed_of_an_example_alone(tmp_path: Path) -> None:
    made = task(tmp_path, masking={"token_rate": 0.5, "mention_rate": 0.5})
    rows = list(made.examples([story(3), story(7)]))
    seeds = [(1, 0, i) for i in range(len(rows))]
    together = made.collate(rows, seeds)
    for row, (example, seed) in enumerate(zip(rows, seeds, strict=True)):
        alone = made.collate([example], [seed])
        assert torch.equal(alone.ids[0], together.ids[row, : alone.ids.shape[1]])
    other = made.collate(rows, [(1, 1, i) for i in range(len(rows))])
    assert not torch.equal(other.ids, together.ids)


def test_targets_are_the_sub_words_as_they_were(tmp_path: Path) -> None:
    made = task(tmp_path, masking={"token_rate": 0.5})
    rows = list(made.examples([story(i) for i in range(60)]))
    batch, plain = made.collate(rows, [(1, 0, i) for i in range(len(rows))]), made.unmasked(rows)
    assert torch.equal(plain.ids.flatten()[batch.masked], batch.targets)
    tokens = sum(len(row["ids"]) for row in rows)
    # Six deviations of the binomial distribution.
    assert abs(len(batch.targets) - tokens / 2) < 6 * (tokens / 4) ** 0.5
    elsewhere = torch.ones(batch.ids.numel(), dtype=torch.bool)
    elsewhere[batch.masked] = False
    same = batch.ids.flatten()[batch.masked] == batch.targets
    assert 0 < same.float().mean() < 0.2


def test_a_mention_has_the_mean_of_its_tokens() -> None:
    hidden = torch.randn(7, 3, dtype=torch.float64)
    found = mention_vectors(hidden, torch.tensor([1, 2, 5, 5]), torch.tensor([0, 0, 1, 2]), 3)
    torch.testing.assert_close(found, torch.stack([hidden[1:3].mean(0), hidden[5], hidden[5]]))


def contrast(made: ChainsTask, stories: list[int]) -> tuple[float, int]:
    vectors = torch.tensor(GOLDEN["embeddings"], dtype=torch.float64)
    keys = torch.tensor([GOLDEN["chain"], stories]).T
    ((total, count),) = made.contrast(vectors, vectors, keys, torch.arange(len(keys)), START).values()
    return float(total), int(count)


def test_the_contrast_is_that_of_the_published_definition(tmp_path: Path) -> None:
    total, count = contrast(task(tmp_path), GOLDEN["story"])
    assert count == GOLDEN["pairs"]
    assert total / count == pytest.approx(GOLDEN["loss"], abs=1e-9)


def test_negatives_of_both_kinds_and_of_the_same_story(tmp_path: Path) -> None:
    one_story = [0] * len(GOLDEN["story"])
    apart = GOLDEN["chain"]
    losses = {
        kind: [contrast(task(tmp_path, loss={"negatives": kind}), s)[0] for s in (one_story, apart)]
        for kind in ("other_stories", "same_story", "both")
    }
    assert losses["other_stories"][0] == losses["same_story"][1] == 0
    assert losses["both"][0] == losses["both"][1] == losses["other_stories"][1] == losses["same_story"][0] > 0


def test_a_step_whose_mentions_hold_no_word_has_no_contrast(tmp_path: Path) -> None:
    made = task(tmp_path)
    blanks = tuple(Mention(at, at + 1, "mention", chain="1") for at in (3, 7))
    rows = list(made.examples([Document("blank", "Ada saw the ship.", blanks)]))
    output = made.forward(made.build(), made.collate(rows, [(1, 0, 0)]), START)
    assert output.vectors is not None
    assert output.keys is not None
    own = torch.arange(len(output.vectors))
    total, count = made.contrast(output.vectors, output.vectors, output.keys, own, START)["contrast"]
    assert (total.item(), count.item()) == (0, 0)
    total.backward()


def test_without_a_weight_there_is_no_masked_language_modelling(tmp_path: Path) -> None:
    made = task(tmp_path, loss={"mlm_weight": 0.0}, masking={"token_rate": 1.0})
    rows = list(made.examples([story(1), story(2)]))
    batch = made.collate(rows, [(1, 0, i) for i in range(len(rows))])
    assert not len(batch.targets)
    output = made.forward(made.build(), batch, START)
    assert not output.sums
    assert list(made.weights) == ["contrast"]


def test_windows_that_the_encoder_cannot_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"windows\.length: 1024 sub-words do not fit the encoder"):
        task(tmp_path, windows={"length": 1024}).build()


def test_it_learns_to_find_mentions_of_a_chain(tmp_path: Path) -> None:
    training = {"epochs": 15, "tokens_per_step": 300, "learning_rate": 3e-3}
    parts = {"loss": {"mlm_weight": 0.0}, "masking": {"mention_rate": 0.0}, "training": training}
    made = task(tmp_path, **parts)
    torch.manual_seed(1)
    before, _ = score(made.scorer(made.build()), list(made.items("dev")))
    after = train(made.recipe, tmp_path / "run")["metrics"]
    assert after["mentions"] == before["mentions"] > 20
    assert after["mrr"] > before["mrr"] + 0.1
    assert before["mrr_other_stories"] < after["mrr_other_stories"]
    assert after["mrr"] <= after["mrr_other_stories"] <= 1


@pytest.mark.parametrize(
    ("negatives", "chooses"),
    [("other_stories", "mrr_other_stories"), ("same_story", "mrr"), ("both", "mrr")],
)
def test_best_is_chosen_among_what_the_contrast_pushes_apart(
    tmp_path: Path, negatives: str, chooses: str
) -> None:
    made = task(tmp_path, loss={"negatives": negatives})
    assert made.metric.name == chooses
    dev = list(made.items("dev"))
    scorer = made.scorer(made.build())
    assert made.metric.name in score(scorer, dev)[0]
    alone = score(scorer, [replace(document, group="book") for document in dev])[0]
    assert (alone["mrr_other_stories"], alone["mentions"]) == (None, score(scorer, dev)[0]["mentions"])


def test_a_dev_whose_chains_are_of_one_place_says_nothing(tmp_path: Path) -> None:
    """Marked for two types, or with no other mention that has a word: nothing is there to be ranked."""
    made = task(tmp_path)
    mentions = (Mention(0, 3, "PER", chain="1"), Mention(0, 3, "mention", chain="1"))
    metrics, _ = score(made.scorer(made.build()), [Document("d", "Ada ran", mentions)])
    assert metrics == {"mrr": None, "mrr_other_stories": None, "top1": None, "mentions": 0}


def test_without_dev_the_last_step_is_best_and_says_so(tmp_path: Path) -> None:
    values = chains_recipe(tmp_path)
    values["corpus"].pop("dev")
    result = train(parse_recipe(values, "recipe"), tmp_path / "run")
    assert result["metrics"] == {}
    assert "the model of the last step" in (tmp_path / "run" / "best" / "README.md").read_text()


def test_its_encoder_starts_a_tagger_and_it_answers_nobody(tmp_path: Path) -> None:
    best = Path(train(parse_recipe(chains_recipe(tmp_path), "recipe"), tmp_path / "run")["checkpoint"])
    loaded = load_checkpoint(best, "cpu")
    with pytest.raises(CheckpointError, match=r"has nothing to answer"):
        loaded.predictor()
    values = tiny_recipe(tmp_path / "tagger", "tagger", epochs=1) | {"encoder": str(best)}
    started: Any = train_task(parse_recipe(values, "recipe")).build()
    theirs = loaded.model.text_encoder.state_dict()  # type: ignore[union-attr]
    ours = started.text_encoder.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    untrained = load_encoder("random:32x2").state_dict()
    assert any(not torch.equal(ours[name], value) for name, value in untrained.items())
    metrics = train(parse_recipe(values, "recipe"), tmp_path / "tagged")["metrics"]
    assert 0 <= metrics["f1"] <= 1
    # Continued, it keeps its head.
    again: Any = train_task(parse_recipe(chains_recipe(tmp_path, encoder=str(best)), "recipe")).build()
    assert torch.equal(again.dense.weight, loaded.model.dense.weight)  # type: ignore[union-attr]


def test_a_new_head_is_told_once_though_a_training_builds_its_model_twice(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rayner.data.warned_once._said", set())
    made = task(tmp_path, encoder="random:24x1")
    with caplog.at_level("INFO", "rayner"):
        made.build()
        made.build()
    assert caplog.text.count("random:24x1 has no head for masked language modelling") == 1


@pytest.mark.parametrize("changes", [{"loss": {"mlm_weight": 0}}, {"masking": {"token_rate": 0}}])
def test_a_recipe_that_learns_nothing_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    values = chains_recipe(tmp_path, **changes)
    values["loss"] = {**values.get("loss", {}), "contrast_weight": 0}
    with pytest.raises(RecipeError, match="are both 0: nothing is learned"):
        parse_recipe(values, "recipe")
