"""States of actuators: how they follow inputs, and how they are kept along a trajectory."""
