"""All scenes of the fidelity suite."""

from scenes.physics import bouncing, piles, sliding, spinning, standing
from scenes.physics.scene import PhysicsScene


def scenes() -> list[PhysicsScene]:
    """All scenes, in the order in which they are reported."""
    return [
        sliding.incline(0.99),
        sliding.incline(1.01),
        sliding.incline(1.5),
        sliding.sliding_block(),
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
    ]
