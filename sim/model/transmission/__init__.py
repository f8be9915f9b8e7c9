"""What actuators act on beyond joints and tendons."""
