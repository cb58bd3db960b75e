"""The vendor's own files, inspected: models of every generation, and packages of operators.

They are compiled for one NPU and never simulated here; code in them is neither shown nor run.
What is read of each kind, and where each fact comes from: ``docs/vendor-files.md``.
"""

from __future__ import annotations

from engine.container.vendor.inspect import inspect_vendor, vendor_origin
from engine.container.vendor.model import (
    CustomSection,
    OpPackage,
    VendorGraph,
    VendorLayer,
    VendorMemory,
    VendorModel,
    VendorPort,
    VendorTensor,
)
from engine.container.vendor.package import inspect_op_package
from engine.container.vendor.views import vendor_graph_view, vendor_node_detail, vendor_view
from engine.wire.model import VendorQuant

__all__ = [
    "CustomSection",
    "OpPackage",
    "VendorGraph",
    "VendorLayer",
    "VendorMemory",
    "VendorModel",
    "VendorPort",
    "VendorQuant",
    "VendorTensor",
    "inspect_op_package",
    "inspect_vendor",
    "vendor_graph_view",
    "vendor_node_detail",
    "vendor_origin",
    "vendor_view",
]
