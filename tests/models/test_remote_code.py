"""What a hub or a folder brings as code is never run, nor asked about on a terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rayner.errors import CheckpointError, InputError
from rayner.models import masked_lm
from rayner.models.encoder import encoder_from_config, load_encoder, load_tokenizer
from rayner.models.masked_lm import MaskedLanguageModel
from rayner.models.rerankers import load_reranker
from rayner.models.sources import Source
from tests.small_rerankers import cross_encoder

CODE = """
from pathlib import Path
from transformers import BertConfig, BertForMaskedLM, BertModel, BertTokenizerFast
Path({ran!r}).touch()
class OwnConfig(BertConfig): model_type = "own"
class OwnModel(BertModel): config_class = OwnConfig
class OwnMaskedLM(BertForMaskedLM): config_class = OwnConfig
class OwnTokenizer(BertTokenizerFast): pass
"""


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that the code of `tmp_path / "model"` makes when it is run, as a user at a terminal allows."""
    folder, ran = tmp_path / "model", tmp_path / "ran"
    folder.mkdir()
    (folder / "own.py").write_text(CODE.format(ran=str(ran)))
    places = {"AutoConfig": "OwnConfig", "AutoModel": "OwnModel", "AutoModelForMaskedLM": "OwnMaskedLM"}
    auto_map: dict[str, Any] = {name: f"own.{place}" for name, place in places.items()}
    config = {"model_type": "own", "auto_map": auto_map}
    (folder / "config.json").write_text(json.dumps(config))
    tokenizer = {"tokenizer_class": "OwnTokenizer", "auto_map": {"AutoTokenizer": [None, "own.OwnTokenizer"]}}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    return ran


@pytest.mark.parametrize("load", [load_encoder, load_tokenizer, encoder_from_config])
def test_code_beside_a_model_is_refused(tmp_path: Path, ran: Path, load: Any) -> None:
    with pytest.raises((InputError, CheckpointError), match="code"):
        load(str(tmp_path / "model"))
    assert not ran.exists()


def test_a_head_that_needs_code_is_left_out(
    tmp_path: Path, ran: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "model"
    monkeypatch.setattr(masked_lm, "locate", lambda name: Source("hub", str(folder), folder))
    assert not MaskedLanguageModel(load_encoder("random:8x1"), 0.1).load_head("any")
    assert not ran.exists()


@pytest.mark.parametrize("asked", ["kernels-community/flash-attn2", "flash_attention_2", {"": "a/b"}, 3])
@pytest.mark.parametrize("load", [load_encoder, encoder_from_config, load_reranker])
def test_attention_by_a_kernel_of_a_hub_is_not_heeded(tmp_path: Path, load: Any, asked: Any) -> None:
    folder = cross_encoder(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "attn_implementation": asked}))
    assert load(str(folder)).model.config._attn_implementation == "sdpa"
