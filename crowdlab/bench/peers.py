"""Other people's codes on the same crowd in the same hall, each as its authors mean it to be used."""

import abc
import importlib.metadata
import logging
from typing import Any

import numpy as np

from crowdlab.bench import crowd
from crowdlab.bench.crowd import MASS, RADIUS, SPEED, Task

RESTARTS = 10  # pieces between two starts, at least


class JuPedSim(abc.ABC):
    """JuPedSim; subclasses choose the model. It looks 2.5 m far for people."""

    compiles = False

    def __init__(self, task: Task) -> None:
        self.task, self.steps = task, int(np.clip(10_000 / task.people, 1, 50))
        self.pieces = max(1, int(crowd.WATCHED / (task.dt * self.steps)))

    def load(self) -> str:
        """Version."""
        import jupedsim

        self.library: Any = jupedsim
        return f"JuPedSim {jupedsim.__version__}"

    def prepare(self) -> dict[str, Any]:
        """Everybody in the hall."""
        self.restart()
        return {"dt": self.task.dt}

    def restart(self) -> None:
        """A new simulation with everybody at the start."""
        (left, right, width), (x, _) = crowd.hall(self.task), crowd.exit_line(self.task)[0]
        corners = [(left, 0.0), (right, 0.0), (right, width), (left, width)]
        simulation = self.library.Simulation(model=self.model(), geometry=corners, dt=self.task.dt)
        stage = simulation.add_exit_stage([(x, 0.0), (x + 0.4, 0.0), (x + 0.4, width), (x, width)])
        journey = simulation.add_journey(self.library.JourneyDescription([stage]))
        person = self.person(journey, stage)
        for place in crowd.places(self.task.people, self.task.density, self.task.seed).tolist():
            person.position = tuple(place)
            simulation.add_agent(person)
        self.simulation = simulation

    def advance(self) -> int:
        """Some steps."""
        self.simulation.iterate(self.steps)
        return self.steps

    @abc.abstractmethod
    def model(self) -> Any:
        """The model, with its own defaults."""

    @abc.abstractmethod
    def person(self, journey: int, stage: int) -> Any:
        """One person's parameters, without the place."""


class SocialForce(JuPedSim):
    """JuPedSim's Helbing-Farkas-Vicsek model."""

    def model(self) -> Any:
        """Its defaults are the numbers of the paper."""
        return self.library.SocialForceModel()

    def person(self, journey: int, stage: int) -> Any:
        """Walking already."""
        parameters = self.library.SocialForceModelAgentParameters
        return parameters(journey_id=journey, stage_id=stage, velocity=(SPEED, 0.0), mass=MASS, desired_speed=SPEED, radius=RADIUS)


class CollisionFreeSpeed(JuPedSim):
    """JuPedSim's collision-free speed model: first order, so velocities need no start."""

    def model(self) -> Any:
        """Its own defaults."""
        return self.library.CollisionFreeSpeedModel()

    def person(self, journey: int, stage: int) -> Any:
        """Same body and speed."""
        parameters = self.library.CollisionFreeSpeedModelAgentParameters
        return parameters(journey_id=journey, stage_id=stage, desired_speed=SPEED, radius=RADIUS)


class PySocialForce:
    """PySocialForce: all pairs, walls as ten points per metre.

    Its step is 0.4 s whatever its configuration says: it looks for `step_width` beside the table that holds it. It gets the walls
    beside and behind the crowd only, which is in its favour.
    """

    compiles = True
    STEP = 0.4  # s

    def __init__(self, task: Task) -> None:
        self.task, self.pieces = task, max(RESTARTS, int(crowd.WATCHED / self.STEP))

    def load(self) -> str:
        """Version."""
        logging.getLogger("numba").setLevel(logging.WARNING)  # it would write down every step of its compiling
        import pysocialforce

        self.library: Any = pysocialforce
        return f"PySocialForce {importlib.metadata.version('pysocialforce')}"

    def prepare(self) -> dict[str, Any]:
        """Everybody in the hall."""
        self.restart()
        return {"dt": float(self.simulator.peds.step_width)}

    def restart(self) -> None:
        """A new simulator with everybody at the start."""
        places = crowd.places(self.task.people, self.task.density, self.task.seed)
        (x, _), (_, width) = crowd.exit_line(self.task)
        walking = np.tile([SPEED, 0.0], (len(places), 1))
        goals = np.stack((np.full(len(places), x), places[:, 1]), -1)
        end = places[:, 0].max() + 5.0
        self.simulator = self.library.Simulator(
            np.concatenate((places, walking, goals), 1),
            obstacles=[(0.0, end, 0.0, 0.0), (0.0, end, width, width), (0.0, 0.0, 0.0, width)],
        )

    def advance(self) -> int:
        """One step."""
        self.simulator.step(1)
        return 1


class MesaBoids:
    """The rules and numbers of Mesa's flocking example on Mesa's continuous space.

    The box grows with the flock, so that each bird sees as few others as in the example: 3 among 100 in 100 x 100. A step is no time.
    """

    compiles, pieces = False, 200
    SIDE, VISION, SEPARATION = 10.0, 10.0, 2.0  # units: side of the box per root of the number of birds
    COHERE, SEPARATE, MATCH, PACE = 0.03, 0.015, 0.05, 1.0

    def __init__(self, task: Task) -> None:
        self.task = task

    def load(self) -> str:
        """Version."""
        import mesa
        import mesa.experimental.continuous_space

        self.library: Any = mesa
        return f"Mesa {mesa.__version__}"

    def prepare(self) -> dict[str, Any]:
        """All birds in their box."""
        self.restart()
        return {}

    def restart(self) -> None:
        """A new model."""
        spaces = self.library.experimental.continuous_space
        drawn = np.random.default_rng(self.task.seed)
        side = self.SIDE * self.task.people**0.5
        model = self.library.Model()
        space = spaces.ContinuousSpace([[0, side], [0, side]], torus=True, random=model.random, n_agents=self.task.people)
        boid = _boid(self)
        for _ in range(self.task.people):
            bird = boid(space, model)
            bird.position = drawn.uniform(0, side, 2)
            bird.direction = drawn.uniform(-1, 1, 2)
        self.model = model

    def advance(self) -> int:
        """One step, in random order as in the example."""
        self.model.agents.shuffle_do("step")
        return 1


def _boid(rules: MesaBoids) -> Any:
    """The agent class, which can only be made where Mesa is."""

    class Boid(rules.library.experimental.continuous_space.ContinuousSpaceAgent):  # type: ignore[misc, name-defined]
        """One bird."""

        def step(self: Any) -> None:
            """Cohesion, separation and alignment, summed and divided by how many are seen."""
            seen, distances = self.get_neighbors_in_radius(radius=rules.VISION)
            if seen:
                offsets = self.space.calculate_difference_vector(self.position, agents=seen)
                turning = offsets.sum(0) * rules.COHERE - offsets[distances < rules.SEPARATION].sum(0) * rules.SEPARATE
                turning = turning + np.asarray([bird.direction for bird in seen]).sum(0) * rules.MATCH
                self.direction = self.direction + turning / len(seen)
                self.direction = self.direction / np.linalg.norm(self.direction)
            self.position = self.position + self.direction * rules.PACE

    return Boid
