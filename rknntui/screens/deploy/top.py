"""The line on top of Deploy, and the command line that does what a view does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rknntui.screens.deploy.code import project_command
from rknntui.screens.deploy.facts import running_facts
from rknntui.screens.deploy.forms import export_command
from rknntui.screens.deploy.request import compile_command, file_name, settings_words
from rknntui.widgets.facts_line import Fact

if TYPE_CHECKING:
    from rknntui.screens.deploy.workspace import Deploy

_OF_CHIPS = ("Compile", "Layers", "Agreement")


def top_facts(deploy: Deploy) -> tuple[Fact, ...]:
    """The job that runs; else the toolkits, what would be compiled, or the open model."""
    job, view, model = deploy.job, deploy.views.view, deploy.session.model
    if job is not None and job.running:
        return running_facts(job)
    if view == "Toolkits":
        rows = deploy.toolkits.rows
        if rows is None:
            return (Fact("looking …"),)
        ready = sum(row.state == "ready" for row in rows)
        return (Fact(f"{len(rows)} toolkit{'' if len(rows) == 1 else 's'}, {ready} ready"),)
    if model is None:
        return (Fact("no model is open"),)
    if view not in _OF_CHIPS:
        return (Fact(model.name),)
    targets = deploy.targets
    quantizer, opinion, accepted, toolkit = settings_words(targets.settings)
    count = len(targets.marked)
    what = f"{count} chips marked" if count > 1 else targets.chip or "no chip"
    failed = ", ".join(name for name, row in targets.found.items() if row.problem)
    lost = Fact(f"✗ failed: {failed}" if failed else "")
    facts = (Fact(what), lost, Fact(quantizer), Fact(accepted), Fact(opinion, (), 2))
    return tuple(fact for fact in (*facts, Fact(toolkit, (), 1)) if fact.text)


def command_line(deploy: Deploy) -> list[str]:
    """The words; empty where nothing is open."""
    views = deploy.views
    match views.view:
        case "Export":
            return export_command(deploy, views.exports.form)
        case "Toolkits":
            row = views.toolkits.environment
            return ["rknntui", "vendor", *(("check", row.name) if row else ("install",))]
        case "Code":
            return project_command(views.code.project, deploy)
        case _:
            request = deploy.targets.request
            return compile_command(deploy.session, request, file_name(deploy, request.chips))
