"""What the service does against what its OpenAPI document says, by schemathesis."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

from rayner.serving.application_settings import ApplicationSettings, ModelSettings
from rayner.serving.http import create_app
from rayner.serving.service import Service
from tests.serving.checkpoints import PEOPLE, recognizer_folder, standardizer_folder
from tests.serving.running import running

# Which types a model has learned and which knowledge bases there are is in no schema, nor are all limits.
CONFIG = """\
[checks.positive_data_acceptance]
expected-statuses = [200, 413, 422]
"""


def test_the_service_does_what_its_document_says(tmp_path: Path) -> None:
    checkpoint, index = standardizer_folder(tmp_path / "people", PEOPLE)
    people = {"index": str(index), "standardizer": str(checkpoint)}
    models = {
        "checkpoint": str(recognizer_folder(tmp_path / "best", steps=1)),
        "knowledge_bases": {"people": people},
    }
    service = Service(ApplicationSettings(), device="cpu")
    asyncio.run(service.load(ModelSettings.model_validate(models)))
    (tmp_path / "schemathesis.toml").write_text(CONFIG)
    command = [str(Path(sys.executable).with_name("schemathesis")), "run", "--checks", "all", "--no-color"]
    command += ["--seed", "1", "--max-examples", "5", "--generation-database", "none"]
    command += ["-H", "Authorization: Bearer key"]
    with running(create_app(service, ("key",))) as address:
        done = subprocess.run(
            [*command, f"{address}/openapi.json"], cwd=tmp_path, capture_output=True, text=True, timeout=300
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "7 selected / 7 total" in done.stdout
