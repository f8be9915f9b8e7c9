"""Description of a world: builder, model, parameters, names, and checks of user input."""
