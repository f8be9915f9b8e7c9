"""The sky of an MJCF file: six faces that MuJoCo generates or reads from images, or one that is shown on all sides."""

import numpy as np

from sim.importers.mjcf.reader import Reader
from sim.importers.mjcf.source.textures import LETTERS, TextureSource, read_pixels
from sim.importers.pictures import Budget, NoPictureError
from sim.model.checks import free_name
from sim.model.looks.lights import Light
from sim.model.looks.looks import Texture
from sim.render.cube import panorama

WHITE = (1.0, 1.0, 1.0)


def add_sky(reader: Reader) -> bool:
    """Add the sky of the file to a scene that has none; return whether there is one. Note why one can't be shown."""
    skies = [number for number, source in enumerate(reader.file.textures) if source.sky]
    taken = any(mounted.light.texture is not None for _, mounted in reader.builder.lights.values())
    budget = Budget()
    for number in skies:
        source = reader.file.textures[number]
        if taken:
            reader.notes.append(f"ignored: sky '{source.name}'; a scene has one sky")
            continue
        try:
            image = Texture(np.ascontiguousarray(panorama(_faces(reader, number, source, budget))), source.name)
        except NoPictureError as error:
            reader.notes.append(f"ignored: sky '{source.name}', which {error}")
            continue
        name = free_name(f"{reader.prefix}{source.name}", reader.builder.lights)
        reader.builder.add_light(name, Light("sky", WHITE, texture=image), orientation=reader.base[3:])
        taken = True
    return taken and bool(skies)


def _faces(reader: Reader, number: int, source: TextureSource, budget: Budget) -> np.ndarray:
    """Return the faces of a sky [6, width, width, 3]."""
    if source.why_not:
        raise NoPictureError(source.why_not)
    if source.is_builtin:
        model = reader.file.model
        width, channels, start = (int(array[number]) for array in (model.tex_width, model.tex_nchannel, model.tex_adr))
        count = 6 * width * width * channels
        return np.array(model.tex_data[start : start + count]).reshape(6, width, width, channels)[..., :3]
    if source.faces:
        found = [read_pixels(source, paths, budget) if paths else None for paths in source.faces]
        sizes = {face.shape[0] for face in found if face is not None}
        if len(sizes) != 1:
            raise NoPictureError("has faces of different sizes, or none")
        black = np.zeros((*[sizes.pop()] * 2, 3), dtype=np.uint8)
        return np.array([_square(black if face is None else face) for face in found])
    image = read_pixels(source, source.paths, budget)
    if not source.grid:
        return np.array([_square(image)] * 6)
    rows, columns = len(source.grid), len(source.grid[0])
    width = image.shape[0] // rows
    if not width or image.shape[:2] != (rows * width, columns * width):
        raise NoPictureError(f"has an image that isn't a grid of {rows} x {columns} squares")
    faces = np.zeros((6, width, width, 3), dtype=np.uint8)
    for row, letters in enumerate(source.grid):
        for column, letter in enumerate(letters):
            if letter in LETTERS:
                part = image[row * width : (row + 1) * width, column * width : (column + 1) * width]
                faces[LETTERS.index(letter)] = part
    return faces


def _square(image: np.ndarray) -> np.ndarray:
    if image.shape[0] != image.shape[1]:
        raise NoPictureError("has a face that isn't square")
    return image
