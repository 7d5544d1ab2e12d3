"""Reads a JSON value through one of the models: checks what a type checker would, and names the field that is wrong.

Bounds, patterns and formats are for the scheduler to judge; keys that a model does not know are kept.
"""

from types import NoneType, UnionType
from typing import Any, Literal, NotRequired, Required, TypeVar, Union, get_args, get_origin, get_type_hints, is_typeddict

T = TypeVar("T")


class ModelError(ValueError):
    """The value is not what the model says; `path` names where."""

    def __init__(self, path: str, expected: str) -> None:
        super().__init__(f"{path} {expected}")
        self.path = path
        self.expected = expected


def read(model: type[T], value: object, path: str = "value") -> T:
    """The value as the model has it: a copy without nulls that stand for absent fields. Raises ModelError."""
    return _read(model, value, path)


def _read(model: Any, value: Any, path: str) -> Any:
    if model is Any:
        return value
    if is_typeddict(model):
        return _read_object(model, value, path)
    origin = get_origin(model)
    if origin in (NotRequired, Required):
        return _read(get_args(model)[0], value, path)
    if origin in (Union, UnionType):
        return _read_union(get_args(model), value, path)
    if origin is Literal:
        if type(value) in (str, int, bool) and value in get_args(model):
            return value
        raise ModelError(path, f"must be one of {', '.join(map(str, get_args(model)))}")
    if origin is list:
        if not isinstance(value, list):
            raise ModelError(path, "must be a list")
        (items,) = get_args(model)
        return [_read(items, item, f"{path}.{at}") for at, item in enumerate(value)]
    if origin is dict:
        if not isinstance(value, dict):
            raise ModelError(path, "must be an object")
        return {key: _read(get_args(model)[1], item, f"{path}.{key}") for key, item in value.items()}
    return _read_plain(model, value, path)


def _read_object(model: Any, value: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ModelError(path, "must be an object")
    missing = [key for key in sorted(model.__required_keys__) if key not in value]
    if missing:
        raise ModelError(path, f"must have {', '.join(missing)}")
    hints = get_type_hints(model)
    seen: dict[str, Any] = {}
    for key, item in value.items():
        if key not in hints:
            seen[key] = item
        elif item is not None or key in model.__required_keys__ or _takes_null(hints[key]):
            seen[key] = _read(hints[key], item, f"{path}.{key}")
    return seen


def _takes_null(model: Any) -> bool:
    if get_origin(model) in (Union, UnionType):
        return any(_takes_null(one) for one in get_args(model))
    return model in (Any, None, NoneType)


def _read_union(models: tuple[Any, ...], value: Any, path: str) -> Any:
    first: ModelError | None = None
    for model in models:
        try:
            return _read(model, value, path)
        except ModelError as problem:
            # The member that came furthest knows best what is wrong.
            if first is None or len(problem.path) > len(first.path):
                first = problem
    assert first is not None
    raise first


def _read_plain(model: Any, value: Any, path: str) -> Any:
    if model in (None, NoneType):
        if value is None:
            return value
        raise ModelError(path, "must be null")
    if model is str and isinstance(value, str):
        return value
    if model is bool and isinstance(value, bool):
        return value
    # A bool is an int to Python, and never a number to JSON.
    if model is int and not isinstance(value, bool):
        if isinstance(value, int):
            return value
        if isinstance(value, float) and value.is_integer():
            return int(value)
    if model is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    words = {str: "a string", bool: "true or false", int: "a whole number", float: "a number"}
    if model not in words:
        raise TypeError(f"{path}: no reading is known for {model!r}")
    raise ModelError(path, f"must be {words[model]}")
