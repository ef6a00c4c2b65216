"""Encoders that other runtimes compute: ONNX Runtime and OpenVINO, one thread each.

    pip install onnx onnxscript onnxruntime openvino

They are no dependency of rayner: `precision_table --runtimes` alone asks for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

Run = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""From ids and mask, int64 [B, L], to hidden states, float32 [B, L, H]."""


class InRuntime(nn.Module):
    """In place of the model of an `Encoder`: the same call, answered by a runtime."""

    def __init__(self, model: nn.Module, run: Run) -> None:
        super().__init__()
        self.config = model.config
        self._run = run

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        found = self._run(input_ids.numpy(), attention_mask.numpy())
        return SimpleNamespace(last_hidden_state=torch.from_numpy(np.array(found)))


class _Exported(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state


def export(model: nn.Module, folder: Path) -> Path:
    """The model in ONNX, for batches and lengths of any size."""
    path = folder / "encoder.onnx"
    if not path.exists():
        ids = torch.ones(2, 16, dtype=torch.long)
        # The last of the second text is padding: a mask of ones alone would be left out of the graph.
        mask = ids.clone()
        mask[1, -1] = 0
        size = {0: torch.export.Dim("batch", min=1, max=4096), 1: torch.export.Dim("length", min=2, max=512)}
        torch.onnx.export(
            _Exported(model).eval(),
            (ids, mask),
            str(path),
            input_names=["input_ids", "attention_mask"],
            output_names=["states"],
            dynamic_shapes={"input_ids": size, "attention_mask": size},
            dynamo=True,
            verbose=False,
        )
    return path


def in_onnx_runtime(path: Path) -> Run:
    """What is in an ONNX file, by ONNX Runtime."""
    import onnxruntime  # pyright: ignore[reportMissingImports]

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda ids, mask: session.run(None, {"input_ids": ids, "attention_mask": mask})[0]


def in_onnx_runtime_int8(path: Path) -> Run:
    """The same with its matrices rounded to int8, by channel; activations are rounded as they come."""
    from onnxruntime.quantization import QuantType, quantize_dynamic  # pyright: ignore[reportMissingImports]

    rounded = path.with_name("encoder-int8.onnx")
    if not rounded.exists():
        quantize_dynamic(
            path, rounded, per_channel=True, weight_type=QuantType.QInt8, op_types_to_quantize=["MatMul"]
        )
    return in_onnx_runtime(rounded)


def in_openvino(path: Path, precision: str) -> Run:
    """What is in an ONNX file, by OpenVINO, in `f32` or `bf16`."""
    import openvino  # pyright: ignore[reportMissingImports]

    settings = {"INFERENCE_PRECISION_HINT": precision, "INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1}
    compiled = openvino.Core().compile_model(str(path), "CPU", settings)
    return lambda ids, mask: compiled([ids, mask])[0]


RUNTIMES: Mapping[str, Callable[[Path], Run]] = {
    "ONNX Runtime, float32": in_onnx_runtime,
    "ONNX Runtime, int8": in_onnx_runtime_int8,
    "OpenVINO, float32": lambda path: in_openvino(path, "f32"),
    "OpenVINO, bfloat16": lambda path: in_openvino(path, "bf16"),
}
"""By the row's name."""
