"""The problem's reference module, NumPy or torch, loaded and called; see `reference_process` for where."""

from __future__ import annotations

import ast
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from astra_kernels.errors import SetupError, UserError
from astra_kernels.jobs.elements import numpy_dtype

_LONGEST_MESSAGE = 500
_TORCH_VIEWS = {"bfloat16": "int16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}


class Reference:
    """A loaded `reference.py`; every error of its code becomes a UserError with file and line."""

    def __init__(self, path: Path) -> None:
        """Loads the module.

        Raises:
            UserError: the file is missing, does not parse, or raises when executed.
            SetupError: it imports torch, which is not installed.
        """
        self._path = path
        try:
            source = path.read_text(encoding="utf-8")
            tree = ast.parse(source, str(path))
        except (OSError, SyntaxError, ValueError) as error:
            raise UserError(f"{path.name}: the reference cannot be read: {error}") from error
        self.uses_torch = "torch" in _imported(tree)
        if self.uses_torch:
            _torch(path)
        self._module = ModuleType("astra_reference")
        self._module.__file__ = str(path)
        code = compile(tree, str(path), "exec")
        self._guarded("when loaded", lambda: exec(code, self._module.__dict__))

    def has(self, name: str) -> bool:
        """Whether the module defines a function `name`."""
        return callable(getattr(self._module, name, None))

    def call(self, name: str, arguments: Sequence[Any]) -> Any:
        """Calls function `name` with arrays and scalars; the arrays are the caller's to lose.

        Raises:
            UserError: there is no such function, or it raises.
        """
        if not self.has(name):
            raise UserError(f"{self._path.name}: the reference defines no function {name!r}")
        function = getattr(self._module, name)
        given = [self._to_native(a) if isinstance(a, np.ndarray) else a for a in arguments]
        return self._guarded(f"in {name}", lambda: function(*given))

    def custom_inputs(self, name: str, axes: dict[str, int], seed: int) -> Any:
        """Calls the definition's own input function, `name(axes_and_scalars, device)`, on the CPU."""
        if not self.has(name):
            raise UserError(f"{self._path.name}: defines no custom_inputs_entrypoint {name!r}")
        np.random.seed(seed % 2**32)  # the only generator that such functions can reach
        if self.uses_torch:
            _torch(self._path).manual_seed(seed)
        function = getattr(self._module, name)
        return self._guarded(f"in {name}", lambda: function(axes, "cpu"))

    def to_numpy(self, value: Any) -> np.ndarray:
        """An array, tensor or number that the reference returned, as a NumPy array."""
        if self.uses_torch and hasattr(value, "detach"):
            tensor = value.detach().cpu().contiguous()
            name = str(tensor.dtype).removeprefix("torch.")
            if name in _TORCH_VIEWS:
                view = getattr(_torch(self._path), _TORCH_VIEWS[name])
                raw: np.ndarray = tensor.view(view).numpy()
                return raw.view(numpy_dtype(name))
            plain: np.ndarray = tensor.numpy()
            return plain
        return np.asarray(value)

    def _to_native(self, values: np.ndarray) -> Any:
        if not self.uses_torch:
            return values
        torch = _torch(self._path)
        name = values.dtype.name
        if name in _TORCH_VIEWS:
            return torch.from_numpy(values.view(_TORCH_VIEWS[name])).view(getattr(torch, name))
        return torch.from_numpy(values)

    def _guarded(self, when: str, call: Callable[[], Any]) -> Any:
        """Runs foreign code; this is a process edge for what it may raise, `SystemExit` included."""
        try:
            with np.errstate(all="ignore"):
                return call()
        except BaseException as error:
            frames = traceback.extract_tb(error.__traceback__)
            own = [f.lineno for f in frames if f.filename == str(self._path)]
            line = f":{own[-1]}" if own else ""
            said = " ".join(str(error).split())[:_LONGEST_MESSAGE]
            raise UserError(
                f"{self._path.name}{line}: the reference raised {when}: {type(error).__name__}: {said}"
            ) from error


def outputs_by_name(returned: Any, names: Sequence[str], path: Path) -> Mapping[str, Any]:
    """A reference's result (dict, tuple, list or single array) by output name.

    Raises:
        UserError: the number or the names do not fit.
    """
    if isinstance(returned, Mapping):
        if set(returned) != set(names):
            raise UserError(
                f"{path.name}: run returned {sorted(returned)}, the outputs are {list(names)}"
            )
        return returned
    values = list(returned) if isinstance(returned, (tuple, list)) else [returned]
    if len(values) != len(names):
        raise UserError(
            f"{path.name}: run returned {len(values)} outputs, the definition has {len(names)}"
        )
    return dict(zip(names, values, strict=True))


def _imported(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.partition(".")[0])
    return names


def _torch(path: Path) -> Any:
    try:
        import torch
    except ImportError as error:
        raise SetupError(
            f"{path.name}: the reference needs the package torch: pip install torch"
        ) from error
    return torch
