"""The vendor's package name ``rknnlite``, answered by rknntui."""

try:
    from engine.api.drop_in.vendor_there import OF_LITE, refuse_beside_vendor
except ImportError as error:
    raise ImportError(
        f"rknntui is not installed here, or another package named engine hides its own: {error}"
    ) from error

refuse_beside_vendor("rknnlite", OF_LITE)
