"""Bokeh and figures as text that stands inside a page, so that the page needs nothing from outside."""

import base64
import gzip
import json
from pathlib import Path
from typing import Any

from bokeh.core.json_encoder import serialize_json
from bokeh.document import Document
from bokeh.embed import json_item
from bokeh.resources import Resources

HERE = Path(__file__).parent


def compressed(raw: bytes) -> str:
    """Bytes as text; embed.js unpacks it."""
    return base64.b64encode(gzip.compress(raw, 9, mtime=0)).decode()


def library() -> str:
    """Bokeh's own script, compressed."""
    return compressed("\n".join(Resources(mode="inline", components=["bokeh"]).js_raw).encode())


def item(layout: Any) -> Any:
    """A layout as the plain data from which Bokeh draws it."""
    Document().add_root(layout)
    return json.loads(serialize_json(json_item(layout)))


def facts_text(facts: dict[str, Any]) -> str:
    """JSON that cannot end the script element it stands in."""
    return json.dumps(facts, separators=(",", ":")).replace("</", "<\\/")


def script(name: str) -> str:
    """A script of ours with what all begin with."""
    return "\n".join((HERE / part).read_text(encoding="utf-8") for part in ("embed.js", name))
