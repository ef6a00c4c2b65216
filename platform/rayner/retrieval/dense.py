"""The dense side of an index: the vectors of its names."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from rayner.errors import InputError
from rayner.losses.distances import Distance
from rayner.retrieval import exact
from rayner.retrieval.approximate import Approximate
from rayner.retrieval.rounded import is_faster, nearest_of_rounded

_SHARE_OF_GPU = 0.8


class DenseSide:
    """Vectors, and what lies near a query among them.

    Args:
        vectors: [M, D] float32, of length 1 where the distance is the cosine; may be memory-mapped.
        distance: of a query and a vector. `similarities` are cosines, or minus the distance.
        approximate: a structure over the same vectors, for `nearest` where it is the faster way; None
            searches all of them.
        bits: the vectors `rounded`, where the distance is the cosine: what many queries are compared with
            first where the structure is slower; None compares them with the vectors themselves.
        device: where the product of matrices is done, to be set before the first query; by default a GPU
            where there is one with room for the vectors. There `nearest` is always exact.
    """

    def __init__(
        self,
        vectors: np.ndarray,
        distance: Distance,
        approximate: Approximate | None = None,
        bits: np.ndarray | None = None,
        device: str | torch.device | None = None,
    ) -> None:
        self.vectors = vectors
        self.distance: Distance = distance
        self.approximate = approximate
        self.bits = bits
        self.device: str | torch.device | None = device

    def search_beside(self, device: torch.device) -> None:
        """Search where a model is: on its GPU where there is room for the vectors, else on the CPU."""
        self.device = device if device.type == "cuda" and _has_room(self.vectors, device) else "cpu"

    def prepare(self, queries: np.ndarray) -> Tensor:
        """Queries [Q, D] as `nearest` and `similarities` take them.

        Raises:
            InputError: another number of dimensions than the vectors have.
        """
        if queries.ndim != 2 or queries.shape[1] != self.vectors.shape[1]:
            what = f"vectors of shape {list(queries.shape)}, the index has {self.vectors.shape[1]} dimensions"
            raise InputError("index", what, "use the encoder that built it")
        found = torch.as_tensor(np.ascontiguousarray(queries, np.float32)).to(self._device)
        return F.normalize(found, dim=1) if self.distance == "cosine" else found

    def nearest(self, queries: Tensor, k: int, approximately: bool = True) -> np.ndarray:
        """The rows [Q, k] of the nearest vectors, best first; fewer where there are fewer, -1 for none."""
        if approximately and self._device.type == "cpu":
            structure, bits = self.approximate, self.bits if self.bits is not None and is_faster() else None
            if structure is not None and not structure.is_slower(len(queries), bits is not None):
                return structure.nearest(queries.numpy(), k)
            if bits is not None:
                with torch.inference_mode():
                    return nearest_of_rounded(queries, self._table, bits, k)
        with torch.inference_mode():
            _, rows = exact.nearest(queries, self._table, self._offsets, k)
        return rows.cpu().numpy()

    def similarities(self, queries: Tensor, query: np.ndarray, row: np.ndarray) -> np.ndarray:
        """How similar are pairs [P] of a query and a vector, by their numbers; those of a query together."""
        table, rows = self._table, torch.as_tensor(row, device=self._device)
        begins = np.flatnonzero(np.diff(query, prepend=-1))
        ends = np.append(begins, len(query))[1:]
        with torch.inference_mode():
            # One query at a time: repeating it for each of its vectors would take most of the time.
            parts = [
                _similarity(queries[number], table.index_select(0, rows[begin:end]), self.distance)
                for number, begin, end in zip(query[begins], begins, ends, strict=True)
            ]
            return torch.cat(parts).cpu().numpy() if parts else np.empty(0, np.float32)

    @cached_property
    def _device(self) -> torch.device:
        return torch.device(self.device) if self.device else _device_for(self.vectors)

    @cached_property
    def _table(self) -> Tensor:
        return torch.as_tensor(self.vectors).to(self._device)

    @cached_property
    def _offsets(self) -> Tensor | None:
        return None if self.distance == "cosine" else exact.half_squares(self._table)


def as_vectors(rows: np.ndarray, distance: Distance, texts: int) -> np.ndarray:
    """What an encoder returned for so many texts, as a dense side keeps it: float32, normalized for cosines.

    Raises:
        InputError: other than one finite vector a text.
    """
    if rows.ndim != 2 or len(rows) != texts:
        raise InputError("encoder", f"gave an array of shape {list(rows.shape)} for {texts} names")
    if not np.isfinite(rows).all():
        raise InputError("encoder", "gave a vector that is not finite", "train it anew, or take another")
    kept = np.ascontiguousarray(rows, np.float32)
    return F.normalize(torch.as_tensor(kept), dim=1).numpy() if distance == "cosine" else kept


def _similarity(query: Tensor, vectors: Tensor, distance: Distance) -> Tensor:
    if distance == "cosine":
        return vectors @ query
    squared = (vectors - query).square().sum(1)
    return -squared if distance == "squared_euclidean" else -squared.sqrt()


def _device_for(vectors: np.ndarray) -> torch.device:
    if torch.cuda.is_available() and _has_room(vectors, device := torch.device("cuda")):
        return device
    return torch.device("cpu")


def _has_room(vectors: np.ndarray, device: torch.device) -> bool:
    return vectors.nbytes < _SHARE_OF_GPU * torch.cuda.mem_get_info(device)[0]
