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

    def small(self) -> "Still":
        """The same in at most 255 tones, transparent ones among them: a quarter to a fifth of the size, hardly to be told apart."""
        image = Image.open(io.BytesIO(self))
        out = io.BytesIO()
        image.convert("RGBA").quantize(255, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(
            out, "PNG", optimize=True
        )
        still = Still(out.getvalue())
        still.shown = self.shown
        return still

    def __repr__(self) -> str:
        return f"Still({self.shown} pixels wide)"  # the same in every run, for notebooks that are tests

    def _repr_png_(self) -> tuple[bytes, dict[str, Any]]:
        return bytes(self), {"width": self.shown}
