"""Where the links are and how they move: poses, Jacobians, velocities, accelerations, motion of the coordinates."""
