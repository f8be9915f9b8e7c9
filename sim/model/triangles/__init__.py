"""Static triangle meshes that bodies touch."""
