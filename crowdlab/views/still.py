"""PNG pictures that a notebook shows by itself and that stay in the file: what they have in common."""

import io
from typing import Any

from PIL import Image


class Still(bytes):
    """The bytes of a PNG file. As the last line of a cell it shows itself, `shown` pixels wide."""

    shown: int

    @classmethod
    def of(cls, image: Image.Image, shown: int | None = None) -> "Still":
        """Pack an image; drawn larger than `shown` it is sharp on fine screens too."""
        out = io.BytesIO()
        packed = image if image.mode == "RGBA" else image.quantize(255, dither=Image.Dither.NONE)  # palettes are coarse with alpha
        packed.save(out, "PNG", optimize=True)
        still = cls(out.getvalue())
        still.shown = image.width if shown is None else shown
        return still

    def __repr__(self) -> str:
        return f"Still({self.shown} pixels wide)"  # the same in every run, for notebooks that are tests

    def _repr_png_(self) -> tuple[bytes, dict[str, Any]]:
        return bytes(self), {"width": self.shown}
