"""Projects in C++ and Python that run a compiled model on a board, with its golden outputs.

The texts of a project are files in ``templates``; what differs from model to model is in
``model.h`` and ``task.h`` (C++) or ``model.py`` (Python), written from a :class:`Project`.
"""

from engine.export.codegen.folder import check_target
from engine.export.codegen.project import Project, ProjectInput, ProjectOutput, Sample
from engine.export.codegen.write import write_project

__all__ = [
    "Project",
    "ProjectInput",
    "ProjectOutput",
    "Sample",
    "check_target",
    "write_project",
]
