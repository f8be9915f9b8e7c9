"""Contacts of boxes and convex meshes, bodies of vertices, edges and faces, with heightfields."""
