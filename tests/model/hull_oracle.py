"""Faces and edges of hulls by brute force, one after the other: what those of sim/model/shapes/hulls.py must equal."""

import numpy as np

from sim.model.shapes.hulls import COPLANAR, LEVEL


def newell(polygon):
    offset = polygon - polygon[0]
    across = np.cross(offset, np.roll(offset, -1, axis=0)).sum(axis=0)
    return across / np.linalg.norm(across)


def faces_of(vertices, triangles):
    p = vertices[triangles]
    across = np.cross(p[:, 1] - p[:, 0], p[:, 2] - p[:, 0])
    area = np.linalg.norm(across, axis=1)
    offset = vertices - vertices.mean(axis=0)
    thickness = np.ptp(offset @ np.linalg.svd(offset, full_matrices=False)[2][-1])
    limit = min(COPLANAR * np.ptp(vertices, axis=0).max(), LEVEL * thickness)
    done = area <= limit * np.linalg.norm(p - np.roll(p, 1, axis=1), axis=2).max(axis=1)
    faces = []
    for k in np.argsort(-area, kind="stable"):
        if done[k]:
            continue
        face, normal, position = triangles[k].tolist(), across[k] / area[k], p[k, 0]
        inside = in_plane(vertices, triangles, across, position, normal, limit)
        if inside.sum() > 1:
            face = polygon_of(vertices, np.unique(triangles[inside]), normal, limit)
            normal = newell(vertices[face])
            inside = in_plane(vertices, triangles, across, vertices[face].mean(axis=0), normal, limit)
            inside[k] = True
            face = polygon_of(vertices, np.unique(triangles[inside]), normal, limit)
        done |= inside
        faces.append(face)
    return faces


def in_plane(vertices, triangles, across, position, normal, limit):
    level = np.abs((vertices - position) @ normal) <= limit
    return level[triangles].all(axis=1) & (across @ normal > 0.0)


def polygon_of(vertices, on_face, normal, limit):
    offset = vertices[on_face] - vertices[on_face].mean(axis=0)
    u = offset[np.argmax(np.linalg.norm(offset, axis=1))]
    u = u - (u @ normal) * normal
    u /= np.linalg.norm(u)
    x, y = offset @ u, offset @ np.cross(normal, u)
    order = np.lexsort((y, x))
    corners = []
    for sequence in (order, order[::-1]):
        chain = []
        for c in sequence:
            while len(chain) > 1:
                a, b = chain[-2], chain[-1]
                beyond = (x[b] - x[a]) * (y[c] - y[a]) - (y[b] - y[a]) * (x[c] - x[a])
                if beyond > limit * np.hypot(x[c] - x[a], y[c] - y[a]):
                    break
                chain.pop()
            chain.append(c)
        corners += chain[:-1]
    return on_face[corners].tolist()


def edges_of(vertices, faces):
    beside = {}
    for face in faces:
        for a, b in zip(face, face[1:] + face[:1], strict=True):
            across = np.cross(vertices[face] - vertices[a], vertices[b] - vertices[a])
            farthest = face[int(np.linalg.norm(across, axis=1).argmax())]
            beside.setdefault((min(a, b), max(a, b)), []).append(farthest)
    return [[a, b, far[0], far[-1]] for (a, b), far in beside.items()]
