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


# Counted in the formulas. A pair: offset 2, square 3, gap 2, exponent 1, strength 1, normal 2, both components 2, both sums 2; square root,
# reciprocal and exponential. Its entry in the list is moved; the other's numbers are counted with the people.
PAIR = Work(4, 15, 3)
# Bodies that overlap: overlap 1, relative velocity 2, sliding 3, compression 1, friction 2, both components 6, both sums 2.
TOUCH = Work(4, 17, 0)
# A wall in reach: foot 12, offset 2, square 3, gap 1, laws as for a pair 20; division, square root, reciprocal, exponential.
WALL = Work(4, 38, 4)
# A person: direction 30, drive 6, motion 8, limit 6, heading 20; two square roots, two reciprocals, arctangent, sine, cosine. Moved are
# position, velocity and heading, read and written, 48 bytes; radii, mass, speed, goal, flags 25; four nodes of the way-finding field 48.
PERSON = Work(121, 70, 7)


def work(people: float, pairs: float, touching: float, near_walls: float) -> Work:
    """Work of one step for so many people, ordered pairs, ordered pairs that touch, and walls looked at."""
    parts = ((people, PERSON), (pairs, PAIR), (touching, TOUCH), (near_walls, WALL))
    return Work(*(sum(count * one[i] for count, one in parts) for i in range(3)))
