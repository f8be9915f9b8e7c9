"""An MJCF file before its conversion: parsed, checked and compiled by MuJoCo."""
