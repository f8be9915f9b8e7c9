"""Energy, forces and sensors of robots compared with MuJoCo's, step by step."""
