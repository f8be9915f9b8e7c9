"""Robot files written by hand; a package, so that an installation brings them along."""
