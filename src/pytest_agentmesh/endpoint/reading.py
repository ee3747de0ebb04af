"""What comes in over HTTP, checked: pydantic knows the shape, and says where a request leaves it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from pytest_agentmesh.endpoint.form import BadRequest

T = TypeVar("T", bound=BaseModel)


class TextPart(BaseModel):
    """A part of a message; one that holds no text, such as an image, says nothing here."""

    text: str = ""


def text_of(content: str | list[TextPart] | None) -> str:
    """What a message says, in whichever way it is sent."""
    return "".join(part.text for part in content) if isinstance(content, list) else content or ""


def read(shape: type[T], document: Mapping[str, Any]) -> T:
    """The document in this shape; what the shape does not name is left aside.

    Raises:
        BadRequest: it is of another shape.
    """
    try:
        return shape.model_validate(document)
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
        raise BadRequest(f"{'.'.join(map(str, wrong['loc']))}: {wrong['msg']}") from None
