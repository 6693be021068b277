"""Placing the people who are there at the start: one group after the other, clear of each other, and all of them if it can be done."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from crowdlab import geometry
from crowdlab.demand.grounds import ground
from crowdlab.demand.groups import Gaussian, Group
from crowdlab.errors import ScenarioError
from crowdlab.geometry import Floor
from crowdlab.state import Array


def place_all(
    floor: Floor,
    groups: Mapping[str, Group],
    keys: Sequence[Array],
    first: np.ndarray,
    position: np.ndarray,
    radius: np.ndarray,
    names: Sequence[str],
) -> None:
    """Fill `position` of all who are there at the start. A group that finds no room left is placed before the others instead."""

    def place(number: int) -> None:
        name, mine = list(groups)[number], rows(number)
        _place(floor, name, groups[name], keys[number], position, radius, mine, names)

    def rows(number: int) -> np.ndarray:
        return np.arange(first[number], first[number + 1])

    present = [(number, group.positions is not None) for number, group in enumerate(groups.values()) if group.source is None]
    order, forward = [number for number, given in present if not given], set[int]()
    for number in (number for number, given in present if given):
        place(number)
    while True:
        for number in order:
            position[rows(number)] = math.nan
        for number in order:
            try:
                place(number)
            except ScenarioError:
                if number in forward or number == order[0]:
                    raise
                forward.add(number)
                order = [number, *(other for other in order if other != number)]
                break
        else:
            return


def _place(
    floor: Floor,
    name: str,
    group: Group,
    key: Array,
    position: np.ndarray,
    radius: np.ndarray,
    mine: np.ndarray,
    names: Sequence[str],
) -> None:
    """Fill in the rows `mine` of `position`, clear of all rows that are filled already."""
    done = np.flatnonzero(~np.isnan(position[:, 0]))
    taken = (position[done], radius[done])
    if group.positions is not None:
        given = geometry.read_points(group.positions, f"groups.{name}.positions") if len(mine) else np.empty((0, 2))
        places = geometry.Notes(floor.origin).inside(given)
        geometry.check_start(floor, places, radius[mine], [names[i] for i in [*mine, *done]], taken)
    elif group.gaussian is not None:
        places = geometry.sample_discs(
            *(floor, floor.area, radius[mine], key),
            taken=taken,
            where=f"groups.{name}.gaussian",
            bell=_bell(floor, name, group.gaussian),
        )
    else:
        area = ground(floor, group.area, f"groups.{name}.area")
        places = geometry.sample_discs(floor, area, radius[mine], key, taken=taken, where=f"groups.{name}.area")
    position[mine] = places


def _bell(floor: Floor, name: str, gaussian: Gaussian) -> tuple[tuple[float, float], tuple[float, float]]:
    """Centre, less the origin, and deviations of a start, m. Raises ScenarioError."""
    where = f"groups.{name}.gaussian"
    given = geometry.read_points([gaussian.centre], f"{where}.centre")
    centre = geometry.Notes(floor.origin).inside(given)
    if not floor.inside(centre)[0]:
        raise ScenarioError(
            f"{where}.centre: {geometry.at(given[0])} lies outside the walkable area. Move it to where people can walk.",
            place=(float(given[0, 0]), float(given[0, 1])),
        )
    both = gaussian.deviation if isinstance(gaussian.deviation, tuple) else (gaussian.deviation, gaussian.deviation)
    for deviation in both:
        if not 0 < deviation < math.inf:
            raise ScenarioError(f"{where}.deviation = {deviation:g} m: allowed are numbers above 0. Give such a number.")
    x, y = centre[0].tolist()
    return (x, y), both
