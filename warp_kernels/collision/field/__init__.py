"""Contacts with heightfields: surfaces of triangles over a grid."""
