"""The lab's panel: buttons, sliders, picture and time series. The only room with ipywidgets; no physics and no state of its own."""

from crowdlab.widgets.panel import Panel, lab
from crowdlab.widgets.sliders import FIRST, Dial, label, written

__all__ = ["FIRST", "Dial", "Panel", "lab", "label", "written"]
