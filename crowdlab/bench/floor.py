"""What one step asks for at least, counted in the formulas, and the shortest time in which a machine could do it."""

from typing import NamedTuple


class Work(NamedTuple):
    """What one step asks for at least."""

    moved: float  # bytes between memory and processor, when everything is read and written once
    flops: float  # additions and multiplications
    transcendentals: float  # exponentials, square roots, divisions, angles

    def seconds(self, rates: dict[str, float]) -> float:
        """Shortest time for it: the slowest of the three, the others hidden behind it."""
        return max(
            self.moved / rates["bytes_per_second"],
            self.flops / rates["flops_per_second"],
            self.transcendentals / rates["transcendentals_per_second"],
        )


# Counted in the formulas. A pair: offset 2, square 3, gap 2, exponent 1, strength 1, normal 2, overlap 1, relative velocity 2, sliding 3,
# compression 1, friction 2, radial sum 1, both components 6, both sums 2; square root, reciprocal and exponential.
PAIR_FLOPS, PAIR_TRANSCENDENTALS = 29, 3
PAIR_BYTES = 4  # its entry in the list; the other's numbers are counted with the people
# A wall in reach: foot 12, offset 2, square 3, gap 1, laws as for a pair 20; division, square root, reciprocal, exponential.
WALL_FLOPS, WALL_TRANSCENDENTALS, WALL_BYTES = 38, 4, 4
# A person: direction 30, drive 6, motion 8, limit 6, heading 20; two square roots, two reciprocals, arctangent, sine, cosine.
PERSON_FLOPS, PERSON_TRANSCENDENTALS = 70, 7
# Position, velocity and heading read and written 48, radii, mass, speed, goal, flags 25, four nodes of the way-finding field 48.
PERSON_BYTES = 121


def work(people: float, pairs: float, near_walls: float) -> Work:
    """Work of one step for so many people, ordered pairs and walls looked at."""
    return Work(
        people * PERSON_BYTES + pairs * PAIR_BYTES + near_walls * WALL_BYTES,
        people * PERSON_FLOPS + pairs * PAIR_FLOPS + near_walls * WALL_FLOPS,
        people * PERSON_TRANSCENDENTALS + pairs * PAIR_TRANSCENDENTALS + near_walls * WALL_TRANSCENDENTALS,
    )
