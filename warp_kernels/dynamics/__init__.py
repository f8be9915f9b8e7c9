"""Forces and motion without contact: inverse and forward dynamics, the mass matrix and its factors, momentum."""
