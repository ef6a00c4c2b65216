"""A device for tests on a machine without a GPU: it keeps its tensors apart from those of the CPU.

Its tensors are computed by the CPU, so that all numbers are the CPU's, yet torch takes them for tensors of
another device, and they refuse what those of a GPU refuse: to be put together with tensors of the CPU other
than scalars, to be indices of those, and to be read as numpy's without a copy.

What it cannot show: kernels, streams, pinned memory, NCCL, the autocast of CUDA, and code for `cuda` alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch.utils import backend_registration

NAME = "other"
_MOVES = ("aten::_to_copy", "aten::copy_")
_TAKES_INDICES = ("aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_")
_FACTORIES = ("arange", "arange.start", "arange.start_step", "randperm", "linspace", "eye", "eye.m")


waits: list[str] = []
"""What a GPU would have made the host wait for: readings of numbers, counts of masks, copies."""
_READ = frozenset(
    f"aten::{name}"
    for name in (
        *("_local_scalar_dense", "nonzero", "masked_select", "bincount", "equal", "_unique2", "unique_dim"),
        *("unique_consecutive", "unique_dim_consecutive", "repeat_interleave"),
    )
)


class OnDevice(Tensor):
    """A tensor of the device, which is one of the CPU within."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> OnDevice:
        # torch knows no views of a wrapper that was made in inference mode.
        with torch.inference_mode(False):
            return Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
                cls,
                inner.size(),
                strides=inner.stride(),
                storage_offset=inner.storage_offset(),
                dtype=inner.dtype,
                device=torch.device(NAME, 0),
            )

    def __init__(self, inner: Tensor) -> None:
        self.inner = inner

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @property
    def data(self) -> OnDevice:  # type: ignore[override]
        return OnDevice(self.inner.detach())

    @data.setter
    def data(self, value: OnDevice) -> None:
        self.inner = value.inner

    def tolist(self) -> Any:
        waits.append("tolist")
        return self.inner.tolist()

    def untyped_storage(self) -> torch.UntypedStorage:
        return self.inner.untyped_storage()

    def data_ptr(self) -> int:
        return self.inner.data_ptr()

    def numpy(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("a tensor of the device is no array; copy it to the CPU first")

    __array__ = numpy

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name
        if _is_waited_for(name, args, kwargs):
            waits.append(name)
        if name not in _MOVES:
            _check_devices(name, args, kwargs)
        asked = kwargs.get("device")
        made = func(*_each(args, _inner), **{key: _inner(value) for key, value in _on_cpu(kwargs).items()})
        returns = func._schema.returns
        if func._schema.is_mutable and len(returns) == 1 and returns[0].alias_info is not None:
            return kwargs.get("out", args[0])
        if asked is not None and torch.device(asked).type == "cpu":
            return made
        return _each(made, OnDevice)


@functools.cache
def register() -> None:
    """Make the device known to torch in this process, for good."""
    backend_registration._setup_privateuseone_for_python_backend(NAME, _Module())
    # The parameters of a module are replaced, as a tensor of the CPU cannot become one of the device.
    torch.__future__.set_swap_module_params_on_conversion(True)
    library.impl("empty.memory_format", _factory(torch.ops.aten.empty.memory_format), "PrivateUse1")
    library.impl("empty_strided", _factory(torch.ops.aten.empty_strided.default), "PrivateUse1")
    library.impl("_copy_from", _copy_from, "PrivateUse1")
    for name in _FACTORIES:
        group, _, overload = name.partition(".")
        made = _factory(getattr(getattr(torch.ops.aten, group), overload or "default"))
        library.impl(name, made, "PrivateUse1")


library = torch.library.Library("aten", "IMPL")


class _Module(backend_registration._DummyBackendModule):
    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]


def _is_waited_for(name: str, args: Any, kwargs: Any) -> bool:
    if name == "aten::_to_copy":
        moves = (asked := kwargs.get("device")) is not None and torch.device(asked).type != NAME
        return moves and isinstance(args[0], OnDevice) and not kwargs.get("non_blocking")
    if name == "aten::copy_":
        target, source, *rest = args
        return isinstance(target, OnDevice) != isinstance(source, OnDevice) and not any(rest)
    if name in _TAKES_INDICES:
        return any(index is not None and index.dtype == torch.bool for index in args[1])
    return name in _READ


def _check_devices(name: str, args: Any, kwargs: Any) -> None:
    tensors: list[Tensor] = []
    _each([*args, *kwargs.values()], tensors.append)
    strangers = [tensor for tensor in tensors if not isinstance(tensor, OnDevice) and tensor.dim() > 0]
    allowed = name in _TAKES_INDICES and isinstance(args[0], OnDevice)
    if strangers and not allowed:
        shapes = ", ".join(f"{tensor.device.type} {list(tensor.shape)}" for tensor in tensors)
        raise RuntimeError(f"{name}: tensors on two devices: {shapes}")


def _factory(operation: Any) -> Callable[..., Tensor]:
    def make(*args: Any, **kwargs: Any) -> Tensor:
        return OnDevice(operation(*args, **_on_cpu(kwargs)))

    return make


def _copy_from(source: Tensor, target: Tensor, non_blocking: bool = False) -> Tensor:
    _inner(target).copy_(_inner(source))
    return target


def _on_cpu(kwargs: Any) -> dict[str, Any]:
    kept = {key: value for key, value in kwargs.items() if key != "pin_memory"}
    return kept if kept.get("device") is None else {**kept, "device": torch.device("cpu")}


def _each(value: Any, change: Callable[[Tensor], Any]) -> Any:
    """What becomes of each tensor, also in lists and tuples; torch's own way takes a test twice the time."""
    if isinstance(value, Tensor):
        return change(value)
    return type(value)([_each(part, change) for part in value]) if type(value) in (list, tuple) else value


def _inner(value: Any) -> Any:
    return value.inner if isinstance(value, OnDevice) else value
