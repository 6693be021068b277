"""One file with figures and the text that belongs to them, for any browser, from disk, with the network off."""

import html
from collections.abc import Sequence
from pathlib import Path
from string import Template

from bokeh.layouts import column

from crowdlab.views.embed import HERE, facts_text, item, library, script
from crowdlab.views.theme import Painted, repainting


def sheet(path: str | Path, figures: Sequence[Painted], *, title: str, note: str, text: str) -> Path:
    """Write one HTML file: title, a line about it, the figures one below the other, and `text` as it stands."""
    layout = column(*(figure.layout for figure in figures), spacing=14)
    page = Template((HERE / "sheet.html").read_text(encoding="utf-8")).substitute(
        title=html.escape(title),
        note=html.escape(note),
        text=html.escape(text),
        library=library(),
        facts=facts_text({"item": item(layout), "theme": repainting(*figures)}),
        script=script("sheet.js"),
    )
    target = Path(path)
    target.write_text(page, encoding="utf-8")
    return target
