"""All scenes of the fidelity suite."""

from scenes.physics import bouncing, carried, holding, piles, sliding, spinning, standing, surfaces
from scenes.physics.scene import PhysicsScene


def scenes() -> list[PhysicsScene]:
    """Return all scenes, in the order in which they are reported."""
    return [
        sliding.incline(0.99),
        sliding.incline(1.01),
        sliding.incline(1.5),
        sliding.sliding_block(),
        sliding.skid(),
        sliding.rolling_ball(),
        bouncing.bouncing_ball(0.5),
        bouncing.bouncing_ball(0.8),
        bouncing.newtons_cradle(),
        piles.stack(),
        piles.dominoes(),
        spinning.top(),
        spinning.tossed_body(),
        spinning.floating_chain(),
        standing.robot(0.0),
        standing.robot(0.1),
        carried.pusher(0.5),
        carried.pusher(5.0),
        carried.lift(2.0),
        carried.belt(2.0),
        surfaces.conveyor(2.0),
        surfaces.ball_on_belt(2.0),
        carried.turntable(),
        carried.shaken(0.8),
        carried.shaken(2.0),
    ]


def hard_scenes() -> list[PhysicsScene]:
    """Return scenes that fifty sweeps mostly don't solve: their bounds are for Newton's method."""
    return [
        holding.heavy_on_light(100.0, 1e-3),
        holding.heavy_on_light(1000.0, 5e-3),
        piles.stack(20),
        holding.slab(),
        holding.heavy_on_a_slope(),
        holding.held_arm(),
        holding.overlap(0.001),
        holding.overlap(0.02),
        holding.seams(1.0, 0.0, 1.0),
        holding.seams(8.0, 0.0, 1.0),
        holding.seams(2.0, 0.3, 1.0),
        holding.near_miss(20.0, 0.002, 1e-2),
    ]
