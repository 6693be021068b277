"""Areas, walls and starting places on the host, by shapely. Nothing here runs inside a step; the device half is `walls`."""

from crowdlab.geometry.areas import (
    VERSION,
    Area,
    Place,
    choose_origin,
    edges_of,
    moved,
    outline,
    polygons,
    read_area,
    read_lines,
    read_place,
    read_points,
)
from crowdlab.geometry.doors import Door, narrow_door, no_room
from crowdlab.geometry.floors import Floor, beyond, check_place, check_zone, covers, lay_floor, outlets, unreachable, within
from crowdlab.geometry.forms import drawn, features, from_geojson, to_geojson
from crowdlab.geometry.inspection import inspect
from crowdlab.geometry.moving import check_door, crosses, cut_at, distances, first_parted, left_open, lying_on, standing, which_door
from crowdlab.geometry.notes import ERROR, NOTE, NOWHERE, WARNING, ZERO, Finding, Notes, Origin, at, markup, metres, table
from crowdlab.geometry.placing import check_start, sample_discs, sample_points, uniforms
from crowdlab.geometry.plans import Plan, note_exits, read_plan
from crowdlab.geometry.room import Room, alike, room_for
from crowdlab.geometry.seams import Joined, wrapped
from crowdlab.geometry.segments import features_near, wall_arrays
from crowdlab.geometry.voronoi import cells_meeting, free_areas, voronoi_cells

__all__ = [
    "ERROR",
    "NOTE",
    "NOWHERE",
    "VERSION",
    "WARNING",
    "ZERO",
    "Area",
    "Door",
    "Finding",
    "Floor",
    "Joined",
    "Notes",
    "Origin",
    "Place",
    "Plan",
    "Room",
    "alike",
    "at",
    "beyond",
    "cells_meeting",
    "check_door",
    "check_place",
    "check_start",
    "check_zone",
    "choose_origin",
    "covers",
    "crosses",
    "cut_at",
    "distances",
    "drawn",
    "edges_of",
    "features",
    "features_near",
    "first_parted",
    "free_areas",
    "from_geojson",
    "inspect",
    "lay_floor",
    "left_open",
    "lying_on",
    "markup",
    "metres",
    "moved",
    "narrow_door",
    "no_room",
    "note_exits",
    "outlets",
    "outline",
    "polygons",
    "read_area",
    "read_lines",
    "read_place",
    "read_plan",
    "read_points",
    "room_for",
    "sample_discs",
    "sample_points",
    "standing",
    "table",
    "to_geojson",
    "uniforms",
    "unreachable",
    "voronoi_cells",
    "wall_arrays",
    "which_door",
    "within",
    "wrapped",
]
