"""Schemas: validated on the way in, models on the way out."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import math
from decimal import Decimal
from typing import Annotated, Any

import pytest
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    RootModel,
    SecretStr,
    computed_field,
    field_serializer,
)

from turnlog.memory import SharedMemory


class Invoice(BaseModel):
    """A model with a default, a coercion and a constraint."""

    total: float = Field(ge=0)
    currency: str = "USD"


class Order(BaseModel):
    """A model with models in it."""

    invoices: list[Invoice]
    when: dt.datetime | None = None


class Strict(BaseModel):
    """A model that takes no text for a date and no list for a tuple, except from JSON."""

    model_config = ConfigDict(strict=True, extra="forbid")
    day: dt.date
    pair: tuple[int, int]


class Aliased(BaseModel):
    """A model whose members have other names in JSON, and one that is computed."""

    model_config = ConfigDict(extra="forbid")
    line_total: int = Field(alias="lineTotal")

    @computed_field
    @property
    def double(self) -> int:
        """Twice the total."""
        return self.line_total * 2


class Loose(BaseModel):
    """A model with a member of any type."""

    data: Any


class Spoken(BaseModel):
    """A model that says itself how a number that is none is written."""

    score: float

    @field_serializer("score", when_used="json")
    def say(self, score: float) -> Any:
        """`n/a` for NaN."""
        return "n/a" if math.isnan(score) else score


class Kind(enum.Enum):
    """An enum."""

    FAST = "fast"


@dataclasses.dataclass
class Point:
    """A dataclass."""

    x: int
    y: int = 0


class Tagged(BaseModel):
    """A model with text for members' names."""

    data: dict[str, int]


# -- writing


@pytest.mark.parametrize(
    ("value", "schema", "stored"),
    [
        pytest.param({"total": "12.5"}, Invoice, {"total": 12.5, "currency": "USD"}, id="coerced"),
        pytest.param({"total": 1, "junk": 2}, Invoice, {"total": 1.0, "currency": "USD"}, id="stripped"),
        pytest.param(Invoice(total=2), Invoice, {"total": 2.0, "currency": "USD"}, id="model"),
        pytest.param([{"total": 1}], list[Invoice], [{"total": 1.0, "currency": "USD"}], id="list of models"),
        pytest.param({1: "a"}, dict[int, str], {"1": "a"}, id="int keys, by schema"),
        pytest.param("7", int, 7, id="number from text"),
        pytest.param("x", str, "x", id="text"),
        pytest.param(None, int | None, None, id="null"),
        pytest.param(5, Annotated[int, Field(gt=1)], 5, id="annotated"),
        pytest.param({"x": "1"}, Point, {"x": 1, "y": 0}, id="dataclass"),
        pytest.param(Kind.FAST, Kind, "fast", id="enum"),
        pytest.param(Decimal("0.10"), Decimal, "0.10", id="decimal"),
        pytest.param(dt.date(2026, 2, 3), dt.date, "2026-02-03", id="date"),
        pytest.param({3, }, set[int], [3], id="set"),
        pytest.param(Aliased(lineTotal=3), Aliased, {"lineTotal": 3}, id="by alias, nothing computed"),
        pytest.param(RootModel[list[int]]([1]), RootModel[list[int]], [1], id="root model"),
    ],
)  # fmt: skip
def test_the_validated_dumped_form_is_stored(
    memory: SharedMemory, value: Any, schema: Any, stored: Any
) -> None:
    """Defaults, coercions and stripping apply, and `read` with the schema gives the value back."""
    from pydantic import TypeAdapter

    memory.write("a", "k", value, schema=schema)
    assert memory.read("a/k").value == stored
    assert memory.read("a/k", schema=schema).value == TypeAdapter(schema).validate_python(value)


@pytest.mark.parametrize(
    ("value", "schema", "lines"),
    [
        pytest.param({"total": -1, "currency": 5}, Invoice, ["$.total: ", "$.currency: "], id="two members"),
        pytest.param({}, Invoice, ["$.total: Field required"], id="missing"),
        pytest.param({"invoices": [{"total": 1}, {}]}, Order, ["$.invoices[1].total: "], id="deep"),
        pytest.param("x", int, ["$: "], id="root"),
        pytest.param({"x": 1}, dict[str, str], ["$.x: "], id="dict"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_line_by_line(
    memory: SharedMemory, value: Any, schema: Any, lines: list[str]
) -> None:
    """A TypeError has one `path: message` line each, and nothing is written, by any verb."""
    memory.write("a", "k", "old")
    for attempt in (
        lambda: memory.write("a", "k", value, schema=schema),
        lambda: memory.write_expiring("a", "k", value, 2, schema=schema),
        lambda: memory.compare_and_set("a", "k", "old", value, schema=schema),
    ):
        with pytest.raises(TypeError, match="schema validation") as caught:
            attempt()
        told = str(caught.value).splitlines()[1:]
        assert len(told) == len(lines)
        assert all(line.startswith(start) for line, start in zip(told, lines, strict=True))
    assert memory.read("a/k").value == "old"


def test_the_message_does_not_repeat_the_value(memory: SharedMemory) -> None:
    """What failed may be secret."""
    with pytest.raises(TypeError) as caught:
        memory.write("a", "k", {"total": "hunter2"}, schema=Invoice)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param(5, id="number"),
        pytest.param("Invoice", id="name"),
        pytest.param("int", id="name of a builtin"),
        pytest.param(object(), id="object"),
        pytest.param(list["Nowhere"], id="name that leads nowhere"),  # noqa: F821
    ],
)
def test_what_is_no_schema_is_refused(memory: SharedMemory, schema: Any) -> None:
    """A TypeError, and nothing is written."""
    with pytest.raises(TypeError, match="schema must be a type"):
        memory.write("a", "k", 1, schema=schema)
    assert memory.store.list() == []
    memory.write("a", "k", 1)
    with pytest.raises(TypeError, match="schema must be a type"):
        memory.read("a/k", schema=schema)


# -- models without a schema


def test_models_are_stored_as_their_json_form(memory: SharedMemory) -> None:
    """On their own, and anywhere inside a value."""
    order = Order(invoices=[Invoice(total=1)], when=dt.datetime(2026, 1, 2, tzinfo=dt.UTC))
    plain = {"invoices": [{"total": 1.0, "currency": "USD"}], "when": "2026-01-02T00:00:00Z"}
    memory.write("a", "one", order)
    memory.write("a", "many", {"orders": [order, {"deep": (order,)}], "n": 1})
    assert memory.read("a/one").value == plain
    assert memory.read("a/many").value == {"orders": [plain, {"deep": [plain]}], "n": 1}
    assert memory.read("a/one", schema=Order).value == order


def test_a_model_that_is_text_is_stored_as_text(memory: SharedMemory) -> None:
    """Its JSON form decides, as for any value."""
    memory.write("a", "k", RootModel[str]("plain"))
    assert memory.store.get("a/k").value == "plain"
    assert memory.read("a/k").value == "plain"


@pytest.mark.parametrize(
    ("value", "path"),
    [
        pytest.param(Loose(data=math.nan), r"\$\.data is nan", id="NaN, which pydantic would make null"),
        pytest.param(Loose(data={"x": [1, math.inf]}), r"\$\.data\.x\[1\]", id="infinity inside"),
        pytest.param([1, Loose(data=-math.inf)], r"\$\[1\]\.data", id="in a list"),
        pytest.param(Invoice(total=math.inf), r"\$\.total", id="in a number field"),
        pytest.param(Loose(data=object()), r"Loose at \$ has no JSON form", id="object"),
        pytest.param({"x": Loose(data=object())}, r"Loose at \$\.x has no JSON form", id="object, nested"),
        pytest.param(Loose(data={"\ud83d": 1}), r"Loose at \$", id="key with half an emoji"),
        pytest.param(Tagged(data={"\ud83d": 1}), r"key .* at \$\.data", id="key that pydantic would replace"),
        pytest.param(Invoice.model_construct(total="much"), r"Invoice at \$", id="never validated"),
        pytest.param(Invoice, r"is a pydantic", id="the class"),
        pytest.param([Invoice(total=1), {2}], r"\$\[1\] is a builtins\.set", id="a set beside a model"),
    ],
)  # fmt: skip
def test_models_without_an_exact_json_form_are_refused(memory: SharedMemory, value: Any, path: str) -> None:
    """Nothing is changed silently, and nothing is written."""
    with pytest.raises(TypeError, match=path):
        memory.write("a", "k", value)
    assert memory.store.list() == []


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        pytest.param({"data": math.nan}, Loose, id="NaN"),
        pytest.param({"data": [math.inf]}, Loose, id="infinity"),
        pytest.param({"data": {"\ud83d": 1}}, Tagged, id="key with half an emoji"),
    ],
)
def test_schemas_change_nothing_silently_either(memory: SharedMemory, value: Any, schema: Any) -> None:
    """A member of any type is no way around the check."""
    with pytest.raises(TypeError, match=r"\$\.data"):
        memory.write("a", "k", value, schema=schema)
    assert memory.store.list() == []


class Person(BaseModel):
    """Somebody."""

    name: str


class Employee(Person):
    """A person of whom more is known."""

    salary: int


class Led(BaseModel):
    """Declares less than it may hold."""

    lead: Person


class Masked(BaseModel):
    """Dumps asterisks."""

    password: SecretStr


class Partly(BaseModel):
    """Keeps a member to itself."""

    shown: int
    kept: int = Field(default=7, exclude=True)


class Keyed(BaseModel):
    """Has keys that are one in JSON."""

    names: dict[int | str, str]


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(Led(lead=Employee(name="x", salary=5)), id="members of a subclass"),
        pytest.param(Masked(password=SecretStr("hunter2")), id="a masked secret"),
        pytest.param(Partly(shown=1, kept=9), id="an excluded member"),
        pytest.param(Keyed(names={1: "a", "1": "b"}), id="two keys that become one"),
        pytest.param(Spoken(score=math.nan), id="a serializer of its own that cannot be read back"),
    ],
)
def test_a_model_that_reads_back_otherwise_is_refused(memory: SharedMemory, value: BaseModel) -> None:
    """What is accepted reads back equal; what would not is refused, alone or by its schema."""
    for schema in (None, type(value)):
        with pytest.raises(TypeError, match=r"at \$ does not read back"):
            memory.write("a", "k", value, schema=schema)
    assert memory.store.list() == []


def test_a_model_of_a_subclass_reads_back_as_that(memory: SharedMemory) -> None:
    """What a declared type would lose is kept where the class itself is named."""
    memory.write("a", "k", Employee(name="x", salary=5))
    found = memory.read("a/k", schema=Employee)
    assert found is not None
    assert found.value == Employee(name="x", salary=5)


def test_a_circle_beside_a_model_is_found(memory: SharedMemory) -> None:
    """Looking for models does not run in circles."""
    loop: list[Any] = [Invoice(total=1)]
    loop += [loop, loop]
    with pytest.raises(TypeError, match="circular"):
        memory.write("a", "k", loop)


# -- reading


def test_read_gives_the_model_back(memory: SharedMemory) -> None:
    """Key, metadata and version are those of the entry; without a schema it is plain data."""
    version = memory.write("a", "k", {"total": 3}, {"x": 1})
    entry = memory.read("a/k", schema=Invoice)
    assert entry.value == Invoice(total=3)
    assert (entry.key, entry.version, entry.metadata["x"]) == ("a/k", version, 1)
    assert memory.read("a/k").value == {"total": 3}
    assert memory.read("a/missing", schema=Invoice) is None


def test_strict_models_come_back(memory: SharedMemory) -> None:
    """A date and a tuple were stored as text and list, and are a date and a tuple again."""
    strict = Strict(day=dt.date(2026, 2, 3), pair=(1, 2))
    memory.write("a", "k", strict, schema=Strict)
    assert memory.read("a/k", schema=Strict).value == strict


@pytest.mark.parametrize("text", ["\ud83d", "\ud83d\ude00", "plain"])
def test_half_an_emoji_goes_through_a_schema(memory: SharedMemory, text: str) -> None:
    """Text that JSON or pydantic's parser cannot spell is validated as it is."""
    memory.write("a", "k", text, schema=str)
    assert memory.read("a/k", schema=str).value == text
    if text != "\ud83d\ude00":
        memory.write("a", "model", Loose(data=[text]))
        assert memory.read("a/model", schema=Loose).value == Loose(data=[text])


def test_a_stored_value_that_does_not_fit(memory: SharedMemory) -> None:
    """Reading says so with key and paths; the entry is still there without the schema."""
    memory.write("a", "k", {"total": "much"})
    with pytest.raises(
        TypeError, match=r"schema validation failed for the stored value of 'a/k'\n\$\.total: "
    ):
        memory.read("a/k", schema=Invoice)
    assert memory.read("a/k").value == {"total": "much"}


def test_schemas_that_compare_equal_are_told_apart(memory: SharedMemory) -> None:
    """Where both fit equally well, `int | str` takes the int and `str | int` the text."""
    assert (int | str) == (str | int)
    for number, schema in enumerate([int | str, str | int, int | str]):
        memory.write("a", str(number), b"1", schema=schema)
    assert [entry.value for entry in memory.list_all()] == [1, "1", 1]
