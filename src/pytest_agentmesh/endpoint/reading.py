"""What comes in over HTTP, checked: pydantic knows the shape, and says where a request leaves it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from pytest_agentmesh.endpoint.form import BadRequest

T = TypeVar("T", bound=BaseModel)


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
