"""Judges JSON by the part of JSON Schema that our description of the API uses, and no more: what it
does not know is an error, and so is a property that the schema does not name."""

from __future__ import annotations

from typing import Any

TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
    "array": (list,),
    "object": (dict,),
}
WORDS = {"title", "description", "default", "format"}


class Schemas:
    """The description of an API; ``problems`` says what is untrue of a value."""

    def __init__(self, described: Any) -> None:
        self._known = described["components"]["schemas"]

    def problems(self, value: Any, schema: Any, place: str = "$") -> list[str]:
        if "$ref" in schema:
            return self.problems(value, self._known[schema["$ref"].rpartition("/")[2]], place)
        if "anyOf" in schema:
            found = [self.problems(value, each, place) for each in schema["anyOf"]]
            return [] if [] in found else [f"{place}: none of {len(found)}: {found}"]
        unknown = set(schema) - WORDS - set(JUDGES) - PARTS
        assert not unknown, f"{place}: this test does not know {unknown}"
        for word, judge in JUDGES.items():
            if word in schema and (found := judge(self, value, schema, place)):
                return list(found)  # What is of another type needs no other judge.
        return []

    def type_(self, value: Any, schema: Any, place: str) -> list[str]:
        wanted = TYPES[schema["type"]]
        is_right = isinstance(value, wanted) and (
            schema["type"] == "boolean" or not isinstance(value, bool)
        )
        return [] if is_right else [f"{place}: {value!r} is no {schema['type']}"]

    def enum(self, value: Any, schema: Any, place: str) -> list[str]:
        return [] if value in schema["enum"] else [f"{place}: {value!r} not in {schema['enum']}"]

    def maximum(self, value: Any, schema: Any, place: str) -> list[str]:
        return [] if value <= schema["maximum"] else [f"{place}: {value} is too large"]

    def minimum(self, value: Any, schema: Any, place: str) -> list[str]:
        return [] if value >= schema["minimum"] else [f"{place}: {value} is too small"]

    def length(self, value: Any, schema: Any, place: str) -> list[str]:
        return [] if len(value) <= schema["maxLength"] else [f"{place}: {len(value)} characters"]

    def properties(self, value: Any, schema: Any, place: str) -> list[str]:
        known = schema["properties"]
        missing = [
            f"{place}: no {name}" for name in schema.get("required", ()) if name not in value
        ]
        foreign = [f"{place}: {name} is not described" for name in value if name not in known]
        inner = [
            problem
            for name, each in value.items()
            if name in known
            for problem in self.problems(each, known[name], f"{place}.{name}")
        ]
        return [*missing, *foreign, *inner]

    def values(self, value: Any, schema: Any, place: str) -> list[str]:
        each = schema["additionalProperties"]
        return [
            problem
            for name, inner in value.items()
            if isinstance(each, dict)
            for problem in self.problems(inner, each, f"{place}.{name}")
        ]

    def items(self, value: Any, schema: Any, place: str) -> list[str]:
        first = schema.get("prefixItems", [])
        rest = schema.get("items", False)
        if len(value) < schema.get("minItems", 0) or len(value) > schema.get("maxItems", 1e9):
            return [f"{place}: {len(value)} items"]
        found = []
        for number, each in enumerate(value):
            kind = first[number] if number < len(first) else rest
            found += self.problems(each, kind, f"{place}[{number}]") if kind else []
        return found


JUDGES: dict[str, Any] = {
    "type": Schemas.type_,
    "enum": Schemas.enum,
    "maximum": Schemas.maximum,
    "minimum": Schemas.minimum,
    "maxLength": Schemas.length,
    "properties": Schemas.properties,
    "additionalProperties": Schemas.values,
    "items": Schemas.items,
}
PARTS = {"required", "prefixItems", "minItems", "maxItems"}
