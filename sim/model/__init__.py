"""What a world is made of: builder, model, parameters, names and the checks of what a user describes."""
