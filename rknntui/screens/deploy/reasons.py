"""Why something cannot be done in Deploy now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rknntui.screens.deploy.actions import OF_VIEWS

if TYPE_CHECKING:
    from rknntui.screens.deploy.workspace import Deploy

_NO_MODEL = "no model is open ({app.open} opens one)."
_CONTAINER = "a container is open; open its model to {} it."
_LINKS = ("node", "drill", "dtypes", "cost")


def reason(method: str, deploy: Deploy) -> str:
    """Why an action cannot run now, keys as in help texts; empty when it can."""
    views = deploy.views
    own = OF_VIEWS.get(method, ())
    if own and views.view not in own:
        return f"it is of the view {own[0]} ({{deploy.next-view}} switches)."
    if method in _LINKS:
        return "" if views.layer_rows.layer_id else "no layer of the build is under the cursor."
    if method == "back":
        job = deploy.job
        going = job is not None and job.running
        return "" if going or views.view in ("Layers", "Agreement") else "no job is running."
    if method == "run":
        found = deploy.targets.result
        return "" if found is not None and found.path else "nothing is compiled for this chip yet."
    if method == "findings":
        return _nothing_known(deploy)
    if method in ("remove", "use"):
        return "" if views.toolkits.environment is not None else "no toolkit is in the list."
    if method == "install" and _making(deploy):
        return "a toolkit is being made ({deploy.back} stops it)."
    if method in ("next_chip", "chip_before"):
        return "" if len(deploy.targets.found) > 1 else "no other chip is compiled."
    if method in ("start", "refresh"):
        return _no_start(method, deploy)
    return ""


def _making(deploy: Deploy) -> bool:
    job = deploy.job
    return job is not None and job.running and job.method.startswith("vendor.")


def _nothing_known(deploy: Deploy) -> str:
    views = deploy.views
    if views.view == "Toolkits":
        return "" if views.toolkits.environment is not None else "no toolkit is in the list."
    if views.view == "Code":
        return "" if views.code.result is not None else "no project is written yet."
    return "" if deploy.targets.result is not None else "nothing is compiled for this chip yet."


def _no_start(method: str, deploy: Deploy) -> str:
    """Why what the view is for cannot begin."""
    views, session = deploy.views, deploy.session
    view = "Compile" if method == "refresh" else views.view
    if view == "Toolkits":
        known = views.toolkits.environment is not None
        return "" if known else "no toolkit is in the list ({deploy.install} installs one)."
    if view == "Export" and (views.exports.form.view or views.exports.form.of_file):
        return ""
    if session.model is None:
        return _NO_MODEL
    if view == "Code":
        return (
            ""
            if views.code.chip(session)
            else "no chip is chosen (Enter on the line chip chooses one)."
        )
    if session.container is not None:
        return _CONTAINER.format("export" if view == "Export" else "compile")
    return _no_compiler(deploy) if view != "Export" else ""


def _no_compiler(deploy: Deploy) -> str:
    """Why no chip that is wanted can be compiled for."""
    if not deploy.targets.wanted:
        return "no chip is chosen ({deploy.mark} marks one)."
    if deploy.toolkits.rows is None:
        return "" if deploy.toolkits.error is None else deploy.toolkits.error[0]
    wanted = {
        deploy.targets.generations[name]
        for name in deploy.targets.wanted
        if name in deploy.targets.generations
    }
    named = deploy.targets.settings.toolkit
    if any(deploy.toolkits.for_generation(generation, named) for generation in wanted):
        return ""
    if wanted == {1}:
        return "no toolkit of generation 1 is set up (Toolkits: {deploy.adopt} uses one)."
    return "no toolkit is set up ({deploy.install} installs one)."
