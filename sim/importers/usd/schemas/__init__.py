"""Properties of files in the schemas of UsdPhysics and of simulators: what is read, and what is ignored."""
