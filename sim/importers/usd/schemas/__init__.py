"""Properties that files state in the schemas of UsdPhysics and of simulators: what is read of them, and what isn't."""
