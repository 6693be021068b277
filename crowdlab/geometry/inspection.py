"""What one sees only when all walls stand: parts that nobody can get to, and passages narrower than a body.

It takes longer than reading a plan, so it is done where somebody asks for a report.
"""

import shapely

from crowdlab.geometry.floors import Floor
from crowdlab.geometry.notes import NOTE, WARNING, Notes
from crowdlab.geometry.passages import narrow_passages


def inspect(floor: Floor, radius: float, notes: Notes) -> None:
    """Note where bodies of `radius` m do not fit, do not get to, or do not get through."""
    body = f"for bodies of radius {radius:.3g} m"
    free = sorted(shapely.get_parts(floor.free(radius)), key=lambda part: -part.area)
    for ground in shapely.get_parts(floor.area):
        if not any(part.intersects(ground) for part in free):
            spot = shapely.get_point(shapely.maximum_inscribed_circle(ground), 0)
            wide = 2 * spot.distance(ground.boundary)
            repair = "Kept: nobody can stand there. Is the unit metres?"
            notes.add(WARNING, "world.area", f"a part too narrow {body}", spot.coords[0], wide, "m wide", repair)
    for part in free[1:]:
        area = shapely.intersection(part.buffer(radius, join_style="mitre"), floor.area).area
        spot = part.representative_point().coords[0]
        notes.add(
            WARNING, "world.area", f"a part cut off {body}", spot, area, "m²", "Kept: nobody gets there from the largest part."
        )
    for passage in narrow_passages(floor, radius):
        x, y = passage.line.mean(0)
        notes.add(
            NOTE, "world", f"a gap too narrow {body}", (x, y), passage.width, "m wide", "Kept: nobody gets through. Is it meant?"
        )
