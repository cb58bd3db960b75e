"""The vendor's package name ``rknn``, answered by rknntui."""

try:
    from engine.api.drop_in.vendor_there import OF_TOOLKIT, refuse_beside_vendor
except ImportError as error:
    raise ImportError(
        f"rknntui is not installed here, or another package named engine hides its own: {error}"
    ) from error

refuse_beside_vendor("rknn", OF_TOOLKIT)
