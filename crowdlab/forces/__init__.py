"""Forces: one file per family; importing the package fills FORCES."""

from crowdlab.forces.base import FORCES, Force, force
from crowdlab.forces.crowd import Contact, Driving, Repulsion
from crowdlab.forces.walls import WallContact, WallRepulsion

__all__ = ["FORCES", "Contact", "Driving", "Force", "Repulsion", "WallContact", "WallRepulsion", "force"]
