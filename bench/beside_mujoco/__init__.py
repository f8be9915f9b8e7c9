"""Energy, forces and sensors of robots beside MuJoCo's, step by step."""
