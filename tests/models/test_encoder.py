from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from rayner.errors import CheckpointError, InputError
from rayner.models import sources
from rayner.models.encoder import Encoder, encoder_from_config, encoder_to_fill, load_encoder, load_tokenizer
from rayner.models.sources import locate, weights_digest
from rayner.runtime.training.optimization import checkpoint_gradients

IDS = torch.tensor([[101, 7592, 2088, 102], [101, 7592, 102, 0]])
MASK = IDS != 0


def test_the_embedded_encoder_knows_like_from_unlike() -> None:
    encoder, tokenizer = load_encoder("all-MiniLM-L6-v2").eval(), load_tokenizer("all-MiniLM-L6-v2")
    assert (encoder.hidden_size, encoder.max_length) == (384, 512)

    def mean_state(text: str) -> torch.Tensor:
        ids = torch.tensor([[tokenizer.cls_id, *tokenizer(text)[0], tokenizer.sep_id]])
        return encoder(ids, ids >= 0).mean((0, 1))

    with torch.inference_mode():
        cat, kitten, bond = map(
            mean_state, ("A cat sleeps.", "The kitten is napping.", "Bond yields rose sharply.")
        )
    assert cat @ kitten / (cat.norm() * kitten.norm()) > 0.5 > 0.3 > cat @ bond / (cat.norm() * bond.norm())


def test_embedded_weights_that_differ_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_EMBEDDED_SHA256", "0" * 64)
    with pytest.raises(CheckpointError, match="SHA-256"):
        load_encoder("all-MiniLM-L6-v2")


def test_without_the_embedded_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_EMBEDDED_PACKAGE", "no_such_package_at_all")
    with pytest.raises(InputError, match="offline"):
        load_encoder("all-MiniLM-L6-v2")


def test_a_random_encoder_depends_on_the_seed_alone() -> None:
    states = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        states.append(load_encoder("random:8x2").eval()(IDS, MASK))
    assert states[0].shape == (2, 4, 8)
    assert torch.equal(states[0], states[1])
    assert not torch.equal(states[0], states[2])


def test_padding_does_not_reach_the_real_tokens() -> None:
    encoder = load_encoder("random:8x2").eval()
    torch.testing.assert_close(
        encoder(IDS, MASK)[1, :3], encoder(IDS[1:, :3], MASK[1:, :3])[0], rtol=0, atol=1e-5
    )


def test_the_configuration_builds_the_same_architecture(tmp_path: Path) -> None:
    encoder = load_encoder("random:8x2").eval()
    encoder.save(tmp_path)
    other = encoder_from_config(tmp_path).eval()
    other.load_state_dict(encoder.state_dict())
    assert torch.equal(other(IDS, MASK), encoder(IDS, MASK))


def test_an_encoder_to_fill_draws_no_number_and_is_whole_once_it_is_filled(tmp_path: Path) -> None:
    encoder = load_encoder("random:32x2").eval()
    encoder.save(tmp_path)
    before = torch.get_rng_state()
    other = encoder_to_fill(tmp_path).eval()
    assert torch.equal(torch.get_rng_state(), before)
    other.load_state_dict(encoder.state_dict())
    ids = torch.tensor([[2, 10, 11, 3]])
    assert torch.equal(other(ids, ids > 0), encoder(ids, ids > 0))
    # Only for what is built within: numbers are drawn again.
    encoder_from_config(tmp_path)
    assert not torch.equal(torch.get_rng_state(), before)


def checkpoint(folder: Path, prefix: str = "text_encoder.") -> torch.nn.Module:
    encoder = load_encoder("random:8x1").eval()
    encoder.save(folder / "encoder")
    save_file(
        {prefix + name: value for name, value in encoder.state_dict().items()}, folder / "model.safetensors"
    )
    (folder / "recipe.yaml").write_text("task: recognizer\n")
    load_tokenizer("random:8x1").save(folder / "encoder")
    return encoder


def test_the_text_encoder_of_a_checkpoint_starts_another_model(tmp_path: Path) -> None:
    encoder = checkpoint(tmp_path)
    assert torch.equal(load_encoder(str(tmp_path)).eval()(IDS, MASK), encoder(IDS, MASK))
    assert load_tokenizer(str(tmp_path))("hello world")[0] == [7592, 2088]


def test_the_encoder_of_a_checkpoint_has_weights_of_its_own(tmp_path: Path) -> None:
    encoder = checkpoint(tmp_path, prefix="something_else.")
    save_file(encoder.model.state_dict(), tmp_path / "encoder" / "model.safetensors")
    assert torch.equal(load_encoder(str(tmp_path)).eval()(IDS, MASK), encoder(IDS, MASK))
    before = weights_digest(str(tmp_path))
    (tmp_path / "model.safetensors").unlink()
    assert weights_digest(str(tmp_path)) == before
    others = {name: value + 1 for name, value in encoder.model.state_dict().items()}
    save_file(others, tmp_path / "encoder" / "model.safetensors")
    assert weights_digest(str(tmp_path)) != before


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    load_encoder("random:8x1").save(tmp_path)
    with pytest.raises(InputError, match="no tokenizer"):
        load_tokenizer(str(tmp_path))


def test_damaged_checkpoints_are_refused(tmp_path: Path) -> None:
    checkpoint(tmp_path, prefix="something_else.")
    with pytest.raises(CheckpointError, match="missing"):
        load_encoder(str(tmp_path))
    (tmp_path / "model.safetensors").write_bytes(b"\0" * 100)
    with pytest.raises(CheckpointError, match="safetensors"):
        load_encoder(str(tmp_path))
    (tmp_path / "encoder" / "config.json").unlink()
    with pytest.raises(CheckpointError, match="config"):
        load_encoder(str(tmp_path))


def test_a_local_folder_in_the_format_of_transformers(tmp_path: Path) -> None:
    encoder = load_encoder("random:8x1").eval()
    encoder.model.save_pretrained(tmp_path)
    assert torch.equal(load_encoder(str(tmp_path)).eval()(IDS, MASK), encoder(IDS, MASK))


def test_the_pooler_of_a_published_model_is_dropped(tmp_path: Path) -> None:
    from transformers import RobertaConfig, RobertaModel

    config = RobertaConfig(vocab_size=50, hidden_size=8, num_hidden_layers=1, num_attention_heads=2)
    config.intermediate_size, config.max_position_embeddings = 8, 34
    RobertaModel(config).save_pretrained(tmp_path)
    encoder = load_encoder(str(tmp_path)).eval()
    assert encoder.max_length == 32
    assert not any("pooler" in name for name in encoder.state_dict())
    longest = torch.full((1, encoder.max_length), 5)
    assert encoder(longest, longest > 0).shape == (1, 32, 8)


def test_an_encoder_whose_forward_calls_its_pooler(tmp_path: Path) -> None:
    from transformers import SqueezeBertConfig, SqueezeBertModel

    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    config = SqueezeBertConfig(vocab_size=50, embedding_size=8, **sizes)
    SqueezeBertModel(config).save_pretrained(tmp_path)
    assert load_encoder(str(tmp_path)).hidden_size == 8


def test_big_bird_reads_a_text_as_it_did_in_training_whatever_came_before() -> None:
    from transformers import BigBirdConfig, BigBirdModel

    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    torch.manual_seed(1)
    encoder = Encoder(BigBirdModel(BigBirdConfig(vocab_size=50, block_size=4, num_random_blocks=1, **sizes)))
    long, short = (torch.arange(size)[None] % 50 for size in (80, 8))
    with torch.no_grad():
        found = [encoder.eval()(ids, ids >= 0) for ids in (long, short, long)]
    assert torch.equal(found[0], found[2])


def test_activations_that_float16_cannot_hold_are_told() -> None:
    encoder = load_encoder("random:16x1").eval()
    ids, mask = torch.arange(12).view(2, 6), torch.tensor([[True] * 6, [True] * 3 + [False] * 3])
    encoder.precision = "float16"
    with torch.no_grad():
        assert encoder(ids, mask).isfinite().all()
        encoder.model.encoder.layer[0].output.dense.weight.mul_(1e7)
        with pytest.raises(InputError, match=r"precision float16: .* take bfloat16 or float32"):
            encoder(ids, mask)
        encoder.train()(ids, mask)  # such a step is skipped


@pytest.mark.parametrize("name", ["./nowhere", "/nowhere/at/all", "~/surely/not/here"])
def test_a_path_that_does_not_exist(name: str) -> None:
    with pytest.raises(InputError, match="random:0x2: vectors without a dimension"):
        load_encoder("random:0x2")
    with pytest.raises(InputError, match="no such folder"):
        load_encoder(name)
    with pytest.raises(InputError, match="no such folder"):
        load_tokenizer(name)


def test_a_path_may_have_variables_and_the_scheme_of_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a b" / "best").mkdir(parents=True)
    (tmp_path / "a b" / "recipe.yaml").touch()
    monkeypatch.setenv("RUNS", str(tmp_path))
    for name in ("$RUNS/a b", "${RUNS}/a b", f"file://{tmp_path}/a%20b"):
        assert locate(name).folder.is_relative_to(tmp_path / "a b")
    monkeypatch.delenv("RUNS")
    with pytest.raises(InputError, match=r"\$RUNS/a b: the environment variable RUNS is not set; export"):
        locate("$RUNS/a b")
    with pytest.raises(InputError, match="is a file; give a folder, such as RUN/best"):
        locate(str(tmp_path / "a b" / "recipe.yaml"))


def test_a_model_that_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    said = "no-such-owner/no-such-model: no such folder, and no"
    with pytest.raises(InputError, match=said):
        load_encoder("no-such-owner/no-such-model")
    with pytest.raises(InputError, match=said):
        load_tokenizer("no-such-owner/no-such-model")


def test_an_empty_folder_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        load_encoder(str(tmp_path))


KIN = (
    "Roberta",
    "XLMRoberta",
    "MPNet",
    "Longformer",
    "Luke",
    "Data2VecText",
    "IBert",
    "Bert",
    "Electra",
    "DebertaV2",
)


def tiny(architecture: str) -> Encoder:
    import transformers

    small = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    if architecture == "Luke":  # its own table of entities has half a gigabyte
        small |= {"entity_vocab_size": 50, "entity_emb_size": 8}
    config = getattr(transformers, f"{architecture}Config")(
        vocab_size=50, pad_token_id=1, max_position_embeddings=34, **small
    )
    return Encoder(getattr(transformers, f"{architecture}Model")(config))


@pytest.mark.parametrize("architecture", KIN)
def test_a_window_of_the_greatest_length_fits_the_encoder(architecture: str) -> None:
    encoder = tiny(architecture).eval()
    assert encoder.max_length >= 32
    ids = torch.full((1, encoder.max_length), 5)
    assert encoder(ids, ids > 0).shape == (1, encoder.max_length, 8)


@pytest.mark.parametrize("architecture", ["Longformer", "Bert", "DebertaV2"])
def test_without_dropout_training_is_deterministic(architecture: str) -> None:
    encoder = tiny(architecture).train()
    encoder.set_dropout(0)
    ids = torch.arange(5, 21)[None]
    assert torch.equal(encoder(ids, ids > 0), encoder(ids, ids > 0))
    encoder.set_dropout(0.5)
    assert not torch.equal(encoder(ids, ids > 0), encoder(ids, ids > 0))


def test_an_encoder_that_cannot_recompute_its_activations_says_so() -> None:
    model = nn.Sequential(tiny("MPNet"))
    with pytest.raises(InputError, match="gradient_checkpointing: MPNetModel does not support"):
        checkpoint_gradients(model)


READ_BOTH_WAYS = (*KIN, "DistilBert", "ModernBert", "Ernie", "Camembert", "BigBird", "RoFormer")
READ_OTHERWISE = {
    "GPT2": "follow",
    "MobileBert": "padding",
    "ConvBert": "padding",
    "Nystromformer": "padding",
}


@pytest.mark.parametrize("architecture", [*READ_BOTH_WAYS, *READ_OTHERWISE])
def test_an_encoder_is_refused_where_padding_or_the_direction_matters(
    architecture: str, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    model = tiny(architecture).model
    if architecture == "MobileBert":
        # Published weights have a vector for padding; in fresh ones it is zero, as beyond the edge.
        torch.nn.init.normal_(model.embeddings.word_embeddings.weight)
    model.save_pretrained(tmp_path)
    if architecture in READ_BOTH_WAYS:
        assert load_encoder(str(tmp_path)).hidden_size == 8
    else:
        with pytest.raises(InputError, match=f"^encoder: .*{READ_OTHERWISE[architecture]}"):
            load_encoder(str(tmp_path))


@pytest.mark.parametrize("architecture", READ_BOTH_WAYS)
def test_transformers_reads_the_folder_of_an_encoder(architecture: str, tmp_path: Path) -> None:
    from transformers import AutoModel

    torch.manual_seed(0)
    encoder = tiny(architecture).eval()
    encoder.save(tmp_path)
    weights = {name: value.contiguous() for name, value in encoder.model.state_dict().items()}
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    ids = torch.arange(5, 21)[None]
    torch.manual_seed(1)
    theirs = AutoModel.from_pretrained(str(tmp_path))
    assert torch.equal(theirs(ids, attention_mask=(ids > 0).long()).last_hidden_state, encoder(ids, ids > 0))
    assert torch.equal(load_encoder(str(tmp_path)).eval()(ids, ids > 0), encoder(ids, ids > 0))
