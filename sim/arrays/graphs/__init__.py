"""Launches that are captured once and repeated: on a CPU by native code of our own, elsewhere by Warp."""
