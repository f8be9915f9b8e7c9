"""Ground: heightfields and static triangle meshes, with functions of the same names for both."""
