"""Bokeh figures of things that already exist, and the page that replays a run. Bokeh is imported here and in `live` only.

A figure is made once and then only fed. Everything is drawn in metres at true size.
"""

from crowdlab.views.chart import curves
from crowdlab.views.drawing import picture
from crowdlab.views.gallery import pictured
from crowdlab.views.growth import Growth
from crowdlab.views.page import replay_html
from crowdlab.views.plan import plan_html
from crowdlab.views.plaza import Plaza
from crowdlab.views.series import Timeline, timeline
from crowdlab.views.sheet import sheet
from crowdlab.views.still import Still
from crowdlab.views.theme import DARK, EITHER, LIGHT, Theme

__all__ = [
    "DARK",
    "EITHER",
    "LIGHT",
    "Growth",
    "Plaza",
    "Still",
    "Theme",
    "Timeline",
    "curves",
    "picture",
    "pictured",
    "plan_html",
    "replay_html",
    "sheet",
    "timeline",
]
