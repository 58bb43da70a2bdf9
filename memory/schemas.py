"""Pydantic's part in structured values: checking them, dumping them, giving models back.

Pydantic is imported when it is first needed: most programs that open a log never do.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, cast

from ..eventlog.jsonvalue import MAX_DEPTH
from ..eventlog.text import json_text

if TYPE_CHECKING:
    from pydantic import BaseModel, TypeAdapter, ValidationError

__all__ = ["check_schema", "conform", "dump_models", "revive"]


def check_schema(schema: object) -> None:
    """Refuse what cannot be a schema.

    Raises:
        TypeError: not a type that pydantic can validate.
    """
    _adapter(schema)


def conform(value: object, schema: object) -> object:
    """The form of `value` to store: validated by `schema`, then dumped as JSON values.

    Raises:
        TypeError: the value does not fit, with one `path: message` line each; or the schema is not a type
            that pydantic can validate.
    """
    from pydantic import PydanticUserError, ValidationError

    adapter = _adapter(schema)
    try:
        valid = adapter.validate_python(value)
    except PydanticUserError as error:
        raise _no_schema(schema) from error
    except ValidationError as error:
        raise TypeError(f"schema validation failed; nothing was written\n{_lines(error)}") from error
    return _dump(adapter, valid, "$")


def revive(value: object, schema: object, key: str) -> Any:
    """The model that the stored `value` of `key` stands for.

    Raises:
        TypeError: the value does not fit, with one `path: message` line each; or the schema is not a type
            that pydantic can validate.
    """
    from pydantic import PydanticUserError, ValidationError

    adapter = _adapter(schema)
    try:
        return _validate(adapter, value)
    except PydanticUserError as error:
        raise _no_schema(schema) from error
    except ValidationError as error:
        raise TypeError(
            f"schema validation failed for the stored value of {key!r:.200}\n{_lines(error)}"
        ) from error


def dump_models(value: object) -> object:
    """`value` with every pydantic model in it replaced by its JSON form; `value` itself if there is none.

    Raises:
        TypeError: a model that has no exact JSON form; the message names the path.
    """
    if "pydantic" not in sys.modules:  # then nobody can have made a model
        return value
    from pydantic import BaseModel

    return _dump_models(value, BaseModel, "$", ())


def _dump_models(value: object, model: type[BaseModel], path: str, ancestors: tuple[int, ...]) -> object:
    if isinstance(value, model):
        return _dump(_adapter(type(value)), value, path)
    if id(value) in ancestors:
        raise TypeError(f"the value at {path} contains a circular reference")
    if len(ancestors) > MAX_DEPTH:
        return value  # the check for JSON refuses it
    inside = (*ancestors, id(value))
    if type(value) is list or type(value) is tuple:
        items = cast("list[object]", value)
        dumped = [_dump_models(item, model, f"{path}[{index}]", inside) for index, item in enumerate(items)]
        return items if _same(items, dumped) else dumped
    if type(value) is dict:
        members = cast("dict[object, object]", value)
        copy = {name: _dump_models(item, model, f"{path}.{name}", inside) for name, item in members.items()}
        return members if _same(members.values(), copy.values()) else copy
    return value


def _same(before: Iterable[object], after: Iterable[object]) -> bool:
    return all(one is other for one, other in zip(before, after, strict=True))


def _dump(adapter: TypeAdapter[Any], value: object, path: str) -> object:
    # By alias and without computed fields: what pydantic itself takes as input again.
    dump = functools.partial(adapter.dump_python, value, by_alias=True, round_trip=True)
    try:
        dumped = dump(mode="json", warnings="error")
        plain = dump(mode="python", warnings=False)
    except ValueError as error:  # PydanticSerializationError is one
        raise TypeError(f"the {type(value).__qualname__} at {path} has no JSON form: {error}") from error
    _refuse_lost(plain, dumped, path)
    _refuse_other(adapter, value, dumped, path)
    return dumped


def _refuse_other(adapter: TypeAdapter[Any], value: object, dumped: object, path: str) -> None:
    """Refuse what reads back as another value: members of a subclass, a masked secret, two keys made one."""
    from pydantic import ValidationError

    what = f"the {type(value).__qualname__} at {path} does not read back from JSON as it is"
    try:
        back = _validate(adapter, dumped)
    except ValidationError as error:
        raise TypeError(f"{what}:\n{_lines(error)}") from error
    except RecursionError:
        return  # too deep: the check for JSON refuses it with its own words
    if back != value:
        raise TypeError(f"{what}: {value!r:.200} became {back!r:.200}")


def _refuse_lost(plain: object, dumped: object, path: str) -> None:
    """Refuse what pydantic changes without a word: NaN to null, a key with half an emoji to another."""
    if isinstance(plain, float) and not math.isfinite(plain) and dumped is None:
        raise TypeError(f"the number at {path} is {plain}; it must be finite")
    if isinstance(plain, Mapping) and isinstance(dumped, dict):
        members = cast("Mapping[object, object]", plain).items()
        dumped_members = cast("dict[str, object]", dumped).items()
        for (name, item), (dumped_name, dumped_item) in zip(members, dumped_members, strict=False):
            if isinstance(name, str) and name != dumped_name:
                raise TypeError(f"the key {name!r:.80} at {path} has no JSON form that pydantic can write")
            _refuse_lost(item, dumped_item, f"{path}.{name}")
    elif isinstance(plain, Sequence | AbstractSet) and isinstance(dumped, list):
        items = zip(cast("Iterable[object]", plain), cast("list[object]", dumped), strict=False)
        for index, (item, dumped_item) in enumerate(items):
            _refuse_lost(item, dumped_item, f"{path}[{index}]")


def _validate(adapter: TypeAdapter[Any], value: object) -> Any:
    from pydantic import ValidationError

    # As JSON first: strict models take a date from a str, or a tuple from a list, only there.
    try:
        return adapter.validate_json(json_text(value))
    except ValidationError as error:
        if error.errors(include_url=False, include_input=False)[0]["type"] != "json_invalid":
            raise
    except ValueError:
        pass  # two halves of a surrogate pair, which JSON cannot spell apart
    return adapter.validate_python(value)  # pydantic's JSON parser knows no lone surrogates


def _adapter(schema: object) -> TypeAdapter[Any]:
    return _adapter_of_class(schema) if isinstance(schema, type) else _new_adapter(schema)


def _new_adapter(schema: Any) -> TypeAdapter[Any]:
    from pydantic import PydanticUserError, TypeAdapter
    from pydantic.errors import PydanticUndefinedAnnotation

    if isinstance(schema, str):  # pydantic would look the name up here, not where the caller is
        raise _no_schema(schema)
    try:
        return TypeAdapter(schema)
    except (PydanticUserError, PydanticUndefinedAnnotation) as error:
        raise _no_schema(schema) from error


def _no_schema(schema: object) -> TypeError:
    return TypeError(f"schema must be a type that pydantic can validate, not {schema!r:.80}")


# Building a validator can take milliseconds. Only classes are remembered: other annotations compare equal
# without being the same (`int | str` and `str | int`).
_adapter_of_class = functools.lru_cache(maxsize=256)(_new_adapter)


def _lines(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_input=False, include_context=False)
    return "\n".join(f"{_path(one['loc'])}: {one['msg']}" for one in found)


def _path(location: tuple[int | str, ...]) -> str:
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in location)
