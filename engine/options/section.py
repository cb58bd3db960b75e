"""A section of a recipe: its options, each declared as an attribute, and their values."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Generic, Never, Self, TypeVar, overload

from engine.base.plain import Value, Values
from engine.options.declare import Kind, Option, Role, SectionName
from engine.options.values import FrozenMap

T = TypeVar("T")


class Field(Generic[T]):
    """Declares an option by the name that it is given in a :class:`Section`.

    An instance of the section has the value there, of the type ``T``.

    Args:
        kind, help_, default, choices, more: as of :class:`Option`.
    """

    option: Option

    def __init__(
        self,
        kind: Kind,
        help_: str,
        default: Value = None,
        choices: tuple[str, ...] = (),
        **more: Any,
    ) -> None:
        self._declared = (kind, help_, default, choices)
        self._more = more

    def __set_name__(self, owner: type[Section], name: str) -> None:
        more = {"stage": owner.STAGE, "role": owner.ROLE, **self._more}
        self.option = Option(name, owner.NAME, *self._declared, **more)

    @overload
    def __get__(self, part: None, owner: type[Section]) -> Self: ...
    @overload
    def __get__(self, part: Section, owner: type[Section]) -> T: ...
    def __get__(self, part: Section | None, owner: type[Section]) -> Any:
        return self if part is None else part.values[self.option.name]

    def __set__(self, part: Section, value: Never) -> None:
        raise AttributeError(f"{self.option.name} of a recipe never changes: make another recipe")


@dataclass(frozen=True)
class Section:
    """Values of the options that a subclass declares.

    Attributes:
        values: of every option, lists as tuples.
    """

    NAME: ClassVar[SectionName]
    TITLE: ClassVar[str]
    STAGE: ClassVar[str] = "load"
    """Of its options, where one does not say another; likewise ``ROLE``."""
    ROLE: ClassVar[Role] = "simulator"

    values: FrozenMap

    @classmethod
    def options(cls) -> tuple[Option, ...]:
        """The options in their order."""
        return tuple(one.option for one in vars(cls).values() if isinstance(one, Field))

    @classmethod
    def of(cls, values: Values = MappingProxyType({})) -> Self:
        """A section of checked values; an absent option has its default."""
        return cls(FrozenMap({o.name: values.get(o.name, o.default) for o in cls.options()}))
