"""Binary glTF files of single meshes with their material, for the browser."""

import json
import struct

import numpy as np

from sim.model.looks.looks import Material, Texture
from sim.render.colors import linear_light
from sim.render.tessellation import Triangles
from sim.render.texture_files import png_of
from sim.render.textures import levels_of

WIDEST = 2048  # of images for the browser [pixels]
METALLIC = 0.5  # shown share of metallic: metals reflect surroundings, which the browser doesn't draw
FLOAT, UNSIGNED = 5126, 5125  # types of numbers


def glb_of(triangles: Triangles, rgba: tuple[float, float, float, float], material: Material) -> bytes:
    """Return a .glb file of a mesh; its texture is shown if the triangles have texture coordinates."""
    texture = material.texture if triangles.uv is not None else None
    arrays, indices = _vertices(triangles, texture is not None)
    blocks = [array.astype("<f4").tobytes() for array in arrays.values()] + [indices.astype("<u4").tobytes()]
    accessors: list[dict[str, object]] = [
        {"bufferView": number, "componentType": FLOAT, "count": len(array), "type": f"VEC{array.shape[1]}"}
        for number, array in enumerate(arrays.values())
    ]
    points = arrays["POSITION"]
    accessors[0] |= {"min": points.min(axis=0).tolist(), "max": points.max(axis=0).tolist()}
    accessors.append({"bufferView": len(arrays), "componentType": UNSIGNED, "count": len(indices), "type": "SCALAR"})
    description = {
        "asset": {"version": "2.0"}, "scene": 0, "scenes": [{"nodes": [0]}], "nodes": [{"mesh": 0}],
        "meshes": [{"primitives": [{
            "attributes": {name: number for number, name in enumerate(arrays)}, "indices": len(arrays), "material": 0,
        }]}],
        "materials": [_material(rgba, material, texture is not None)], "accessors": accessors,
    }  # fmt: skip
    if texture is not None:
        description |= {
            "images": [{"bufferView": len(blocks), "mimeType": "image/png"}], "textures": [{"source": 0, "sampler": 0}],
            "samplers": [{"minFilter": 9987, "magFilter": 9729}],  # linear between and inside levels of detail
        }  # fmt: skip
        blocks.append(_image(texture))
    return _packed(description, blocks)


def _vertices(triangles: Triangles, textured: bool) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return the attributes of vertices, and indices of the corners; corners share a vertex if they share all of them.

    The browser smooths the shading across all faces at a vertex.
    """
    vertex, normals = triangles.faces.reshape(-1, 1), triangles.normals.reshape(-1, 3)
    uv = triangles.uv.reshape(-1, 2) if textured and triangles.uv is not None else np.zeros((len(normals), 0))
    keys = np.hstack([vertex, np.round(normals, 3), np.round(uv, 6)])
    _, first, indices = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    arrays = {"POSITION": triangles.vertices[vertex[first, 0]], "NORMAL": normals[first]}
    if textured:
        arrays["TEXCOORD_0"] = uv[first] * (1.0, -1.0) + (0.0, 1.0)  # glTF's v counts from the top
    return arrays, indices.reshape(-1)


def _material(rgba: tuple[float, float, float, float], material: Material, textured: bool) -> dict[str, object]:
    surface: dict[str, object] = {
        "baseColorFactor": [*linear_light(np.array(rgba[:3])).tolist(), float(rgba[3])],
        "metallicFactor": METALLIC * material.metallic, "roughnessFactor": material.roughness,
    }  # fmt: skip
    if textured:
        surface["baseColorTexture"] = {"index": 0}
    return {"pbrMetallicRoughness": surface, "doubleSided": True, "alphaMode": "BLEND" if rgba[3] < 1.0 else "OPAQUE"}


def _image(texture: Texture) -> bytes:
    """Return an image as a .png file, halved until it is narrow enough."""
    return png_of(next(level for level in levels_of(texture.pixels) if max(level.shape[:2]) <= WIDEST))


def _packed(description: dict[str, object], blocks: list[bytes]) -> bytes:
    """Return a .glb file: a description, completed by views of the blocks, and the blocks."""
    padded = [block + b"\0" * (-len(block) % 4) for block in blocks]
    starts = np.cumsum([0, *(len(block) for block in padded)]).tolist()
    views = [
        {"buffer": 0, "byteOffset": start, "byteLength": len(block)}
        for start, block in zip(starts[:-1], blocks, strict=True)
    ]
    full = description | {"bufferViews": views, "buffers": [{"byteLength": starts[-1]}]}
    text = json.dumps(full).encode()
    text += b" " * (-len(text) % 4)
    data = b"".join(padded)
    chunks = struct.pack("<I", len(text)) + b"JSON" + text + struct.pack("<I", len(data)) + b"BIN\0" + data
    return b"glTF" + struct.pack("<II", 2, 12 + len(chunks)) + chunks
