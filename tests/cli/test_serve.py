"""`rayner serve`: what is wrong with its file is said before anything starts."""

from __future__ import annotations

import pytest

_BEST = "checkpoint: RUN/best\n"


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("checkpiont: RUN/best\n", "checkpiont: unknown key; did you mean 'checkpoint'?"),
        ("checkpoint: /nowhere/best\n", "/nowhere/best"),
        ("checkpoint: [\n", "not valid YAML"),
        ("{}\n", "checkpoint"),
        (f"{_BEST}num_replicas: 2\nautoscaling_config: {{}}\n", "yaml: num_replicas: is a key of Ray Serve"),
        (f"{_BEST}replicas: {{autoscaling_config: {{}}}}\n", "replicas: {min: 1, max: 4}"),
        ("applications: [{name: rayner}]\n", "deploy it to a cluster with `serve deploy`"),
    ],
)
def test_a_file_that_cannot_be_served_is_one_line_and_status_2(run, tmp_path, content, named):
    config = tmp_path / "serve.yaml"
    config.write_text(content, encoding="utf-8")
    status, out, err = run("serve", config)
    assert (status, out) == (2, "")
    assert named in err
    assert len(err.splitlines()) == 1
