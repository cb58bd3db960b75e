"""Methods of the wire by name: the command line that does the same, and the record of a result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from engine.wire.codec import encode
from engine.wire.flags import command_of, recipe_words, words_of
from engine.wire.method import methods

if TYPE_CHECKING:
    from engine import JsonObject
    from rknntui.session.state import Session


def read_record(method: str, data: JsonObject) -> object:
    """The record of a job's result; plain data where no method of the wire has that name.

    Raises:
        WorkerError: it is not of that type, as in a damaged or older history.
    """
    task = methods().get(method)
    return data if task is None else task.read(data)


def command_for(verb: str, session: Session) -> list[str]:
    """``rknntui VERB`` on what is open: a container, a saved recipe, or the model with flags."""
    words = ["rknntui", *verb.split()]
    if session.container is not None:
        return [*words, session.container]
    if session.recipe_path is not None and not session.dirty:
        return [*words, session.recipe_path]
    model = session.recipe.get("model")
    if not isinstance(model, str):
        return []
    return [*words, model, *recipe_words(session.recipe)]


def command_with(verb: str, session: Session, request: Any) -> list[str]:
    """:func:`command_for`, with the flags of a request; empty where nothing is open."""
    words = command_for(verb, session)
    return [*words, *words_of(type(request), encode(request))] if words else []


def job_command(method: str, params: Mapping[str, object]) -> list[str]:
    """The command line of a job as it was asked for; empty where no command does the same."""
    job = methods().get(method)
    return [] if job is None else command_of(job, params)
