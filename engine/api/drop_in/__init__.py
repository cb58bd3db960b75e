"""The vendor's module names, ``rknn`` and ``rknnlite``: scripts written for them run unchanged.

They are no packages of this program: nothing imports them here. ``rknntui script`` puts this folder
on the path of the script's process, and the distribution ``rknntui-rknn-api`` (folder ``compat`` of
the repository) installs them by name.
"""
