"""Areas, walls and starting places on the host, by shapely. Nothing here runs inside a step; the device half is `walls`."""

from crowdlab.geometry.areas import VERSION, Area, Place, edges_of, polygons, read_area, read_place, read_points
from crowdlab.geometry.doors import Door, narrow_door
from crowdlab.geometry.floors import Floor, check_place, covers, lay_floor, unreachable, within
from crowdlab.geometry.placing import check_start, sample_discs, sample_points, uniforms
from crowdlab.geometry.room import Room, alike, room_for
from crowdlab.geometry.segments import features_near, wall_arrays

__all__ = [
    "VERSION",
    "Area",
    "Door",
    "Floor",
    "Place",
    "Room",
    "alike",
    "check_place",
    "check_start",
    "covers",
    "edges_of",
    "features_near",
    "lay_floor",
    "narrow_door",
    "polygons",
    "read_area",
    "read_place",
    "read_points",
    "room_for",
    "sample_discs",
    "sample_points",
    "uniforms",
    "unreachable",
    "wall_arrays",
    "within",
]
