"""Cameras of many worlds compared with closed forms, depth images and the ray tracer of a single world."""

import copy
import dataclasses
import pickle

import numpy as np
import pytest
import torch
import warp as wp

import sim
from sim.model.geometries import Mesh
from sim.render import Renderer, view_of
from sim.render.colors import linear_light
from sim.render.lights import OVERHEAD, ZENITH
from tests.errors import refuses
from tests.rays.scenes import both, random_rays

WHITE = (1.0, 1.0, 1.0, 1.0)
DOWN = (0.0, 0.0, 0.0, 1.0)  # orientation of a camera that looks down, y up in the picture
ALONG_Y = (np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5))  # of one that looks along y
BOARD = np.random.default_rng(3).integers(0, 256, (4, 4, 3), dtype=np.uint8)


def encoded(light):
    """The bytes of linear light: a soft shoulder above 0.8, then sRGB."""
    x = np.where(light > 0.8, 0.8 + 0.2 * (1.0 - np.exp(-(light - 0.8) / 0.2)), light)
    return 255.0 * np.where(x <= 0.0031308, 12.92 * x, 1.055 * np.maximum(x, 1e-9) ** (1.0 / 2.4) - 0.055)


def coordinates(model, worlds):
    return torch.as_tensor(model.q0, dtype=getattr(torch, model.dtype)).repeat(worlds, 1)


def lights(cameras, worlds, ambient=0.0):
    """Looks with random suns, and one factor of the sky's light for all."""
    looks = cameras.randomise(worlds, torch.Generator().manual_seed(4), color=0.0)
    return looks._replace(ambient=torch.full((worlds, 3), ambient))


def test_a_lit_plane_reflects_by_lamberts_law():
    """Light times the cosine of its angle, in the middle of a light and of a dark square of the ground."""
    scene = sim.ModelBuilder()
    base = (0.5, 0.7, 0.3)
    scene.add_geometry("world", "plane", rgba=(*base, 1.0))
    for name, x in (("light", -50.0), ("dark", 50.0)):
        scene.add_camera(name, position=(x, 50.0, 2.0), orientation=DOWN)
    model = scene.finalize()
    cameras = sim.torch.Cameras(model, width=8, height=6, tile=100.0)
    looks = lights(cameras, 5)
    rgb = cameras.draw(coordinates(model, 5), looks).rgb
    cosine = -looks.light_axes[:, 0, 2].numpy()[:, None]
    light = linear_light(np.array(base)) * looks.light_colors[:, 0].numpy() * cosine
    for number, share in enumerate((1.0, 0.78)):
        expected = np.broadcast_to(encoded(share * light)[:, None, None], rgb[:, number].shape)
        np.testing.assert_allclose(rgb[:, number], expected, atol=0.51)
    assert len(np.unique(rgb[:, 0, 0, 0], axis=0)) == 5


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_lit_ball_is_that_of_its_formula(dtype):
    """Lambert's law and the highlight of a rough surface, at every pixel, with the shade of its own far side."""
    scene = sim.ModelBuilder()
    centre, radius, roughness, base = np.array([0.1, 2.0, 0.2]), 0.5, 0.8, np.array([0.6, 0.4, 0.2])
    scene.add_geometry(
        "world", "sphere", size=radius, position=centre, rgba=(*base, 1.0), material=sim.Material(roughness=roughness)
    )
    scene.add_camera("eye", orientation=ALONG_Y, fov=40.0)
    model = scene.finalize(dtype)
    cameras = sim.torch.Cameras(model, width=48, height=36)
    looks = lights(cameras, 3)
    images = cameras.draw(coordinates(model, 3), looks)
    x, y, z = sim.rays.pixel_pattern(48, 36, 40.0).T
    along = np.stack([x, -z, y], axis=1)
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    middle = along @ centre
    inside = middle**2 - centre @ centre + radius**2
    hit = inside > 0.0
    distance = middle - np.sqrt(np.maximum(inside, 0.0))
    normal = (along * distance[:, None] - centre) / radius
    np.testing.assert_array_equal(images.geometry[1, 0].numpy().ravel(), np.where(hit, 0, -1))
    np.testing.assert_allclose(
        images.depth[1, 0].numpy().ravel()[hit], (distance / np.linalg.norm([x, y, z], axis=0))[hit], rtol=3e-5
    )
    for world in range(3):
        sun = -looks.light_axes[world, 0].numpy().astype(np.float64)
        half = sun - along
        half /= np.linalg.norm(half, axis=1, keepdims=True)
        facing, seen = np.maximum(normal @ sun, 0.0), np.maximum(-(normal * along).sum(axis=1), 1e-3)
        alpha = roughness**2
        lobe = alpha**2 / ((normal * half).sum(axis=1) ** 2 * (alpha**2 - 1.0) + 1.0) ** 2
        visible = 0.5 / ((1.0 - alpha) * 2.0 * facing * seen + alpha * (facing + seen) + 1e-6)
        fresnel = 0.04 + 0.96 * (1.0 - half @ sun) ** 5
        shine = (fresnel * lobe * visible)[:, None]
        light = (linear_light(base) + shine) * looks.light_colors[world, 0].numpy() * facing[:, None]
        # Within a thousandth of the border of day and night, rounding decides.
        sure = hit & (np.abs(normal @ sun) > 1e-3)
        found = images.rgb[world, 0].numpy().reshape(-1, 3)
        np.testing.assert_allclose(found[sure], encoded(light)[sure], atol=1.0)
        assert (facing[sure] > 0.0).sum() > 20
        assert (found[~hit] == 0).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_depth_and_segmentation_are_those_of_depth_images(tmp_path, dtype):
    both(tmp_path)
    scene = sim.ModelBuilder()
    scene.add_mjcf(tmp_path / "scene.xml")
    poses = {"side": ("world", (0.0, -6.0, 2.0), ALONG_Y), "carried": ("third", (0.1, 0.0, 0.5), (0.3, 0.1, -0.2, 0.9))}
    for name, (link, position, orientation) in poses.items():
        orientation = np.array(orientation) / np.linalg.norm(orientation)
        scene.add_frame(f"{name} frame", link, position, orientation)
        scene.add_camera(name, link, position=position, orientation=orientation, fov=50.0)
    model = scene.finalize(dtype)
    q = torch.as_tensor(random_rays(model, 70, 1)[0], dtype=getattr(torch, dtype))
    images = sim.torch.Cameras(model, list(poses), 40, 30).draw(q)
    robot = sim.torch.Robot(model)
    for number, name in enumerate(poses):
        depth, seen = sim.torch.depth_image(robot, q, f"{name} frame", 40, 30, 50.0)
        same = seen == images.geometry[:, number]
        # Directions are rounded differently, which counts at outlines.
        assert (~same).sum() <= (20 if dtype == "float32" else 0)
        assert len(seen.unique()) > 5
        found = images.depth[:, number]
        assert (found.isinf() == depth.isinf())[same].all()
        # Single precision loses the digits of where a ray meets the floor hundreds of metres away.
        solid = same & (depth < (100.0 if dtype == "float32" else np.inf))
        np.testing.assert_allclose(found[solid], depth[solid], rtol=2e-4 if dtype == "float32" else 1e-6)


def furnished(dtype="float32", **ground):
    """Loose boxes and a textured mesh over the ground, with glass, metal and images."""
    scene = sim.ModelBuilder()
    image = sim.Texture(BOARD.repeat(16, 0).repeat(16, 1))
    scene.add_geometry("world", "plane", rgba=(0.5, 0.6, 0.7, 1.0), **ground)
    looks = (
        {"rgba": (0.9, 0.3, 0.2, 1.0), "material": sim.Material(roughness=0.3, metallic=0.8)},
        {"rgba": (1.0, 0.9, 0.8, 1.0), "material": sim.Material(texture=image, repeat=(2.0, 3.0))},
        {"rgba": (0.2, 0.5, 0.9, 0.4)},
    )
    for number, look in enumerate(looks):
        box = f"box{number}"
        scene.add_link(box, mass=1.0, inertia=(0.1, 0.1, 0.1))
        scene.add_joint(f"free{number}", "free", child=box, position=(0.9 * number - 0.9, 0.3 * number, 1.2))
        scene.add_geometry(box, "box", size=(0.3, 0.2, 0.25), collides=False, name=f"look{number}", **look)
    corners = np.array([[-1, -1, 0], [1, -1, 0], [1, 1, 0.3], [-1, 1, 0.3]], dtype=float)
    faces = np.array([[0, 1, 2], [0, 2, 3], [2, 1, 0], [3, 2, 0]])
    uv = np.array([[0.0, 0.0], [1.5, 0.0], [1.5, 1.0], [0.0, 1.0]])
    sail = Mesh(corners, faces, uv[faces])
    scene.add_geometry(
        "world", "convex", size=(0.6, 0.5, 1.0), mesh=sail, collides=False, position=(0.2, 1.5, 1.0),
        orientation=(0.5, 0.0, 0.0, np.sqrt(0.75)),
        rgba=WHITE, material=sim.Material(texture=image), name="sail",
    )  # fmt: skip
    scene.add_camera("side", position=(0.3, -4.0, 2.0), orientation=(np.sin(0.65), 0, 0, np.cos(0.65)), fov=45.0)
    scene.add_camera("above", position=(0.0, 0.5, 5.0), fov=45.0)
    return scene.finalize(dtype)


def lit(kinds):
    """Loose boxes over the ground in the light of lamps, one of them on a box and one that follows another."""
    scene = sim.ModelBuilder()
    scene.add_geometry("world", "plane", rgba=(0.5, 0.6, 0.7, 1.0))
    for number in range(3):
        position = (0.9 * number - 0.9, 0.3 * number, 1.2)
        scene.add_box(half_extents=(0.3, 0.2, 0.25), mass=1.0, position=position, name=f"box{number}")
    lamps = {
        "spot": (sim.Light("point", (2.0, 1.5, 1.0), cone=50.0, softness=0.4), "box1", (0.0, 0.0, 1.2)),
        "bulb": (
            sim.Light("point", (0.5, 0.9, 0.5), attenuation=(0.2, 0.1, 0.4), exponent=2.0),
            "world",
            (1.0, -1.0, 3.0),
        ),
        "panel": (sim.Light("area", (1.0, 1.0, 2.0), specular=0.0, shadow=False), "world", (-1.5, 0.0, 2.5)),
        "head": (sim.Light("headlight", (0.2, 0.2, 0.1)), "world", (0.0, 0.0, 0.0)),
        "sky": (sim.Light("sky", (0.3, 0.2, 0.4)), "world", (0.0, 0.0, 0.0)),
        "sun": (sim.Light("directional", (0.4, 0.3, 0.3)), "world", (0.0, 0.0, 0.0)),
    }
    for number, kind in enumerate(kinds):
        light, link, position = lamps[kind]
        follows = "centre of mass" if link != "world" else "link"
        turn = np.array([0.1 * number, -0.15, 0.0, 1.0])
        scene.add_light(kind, light, link, position, turn / np.linalg.norm(turn), follows=follows)
    scene.add_camera("side", position=(0.3, -4.0, 2.0), orientation=(np.sin(0.65), 0, 0, np.cos(0.65)), fov=45.0)
    return scene.finalize()


def beside_the_tracer(model, q, width, height):
    """Yield pictures of each world and camera, and those of the ray tracer without smoothing."""
    cameras = sim.torch.Cameras(model, width=width, height=height, haze=0.25)
    images = cameras.draw(q)
    for world, number in np.ndindex(len(q), len(cameras.names)):
        poses = sim.forward_kinematics(model, q[world].numpy()[None]).numpy()[0]
        camera = view_of(model, cameras.names[number], poses)
        renderer = Renderer(model, width=width, height=height, camera=camera, supersamples=1, device="cpu")
        survey = renderer.survey(poses)
        yield images, world, number, renderer.draw(poses).astype(int), survey


@pytest.mark.parametrize(
    "ground", [{}, {"material": sim.Material(texture=sim.Texture(BOARD.repeat(8, 0).repeat(8, 1)), repeat=(0.7, -0.4))}]
)
def test_pictures_of_worlds_are_those_of_the_ray_tracer(ground):
    model = furnished(**ground)
    rng = np.random.default_rng(2)
    q = coordinates(model, 4)
    q += torch.as_tensor(0.2 * rng.normal(size=q.shape), dtype=q.dtype)
    q[:, 2::7] = q[:, 2::7].clamp(min=1.0)
    kinds = set()
    for images, world, number, expected, survey in beside_the_tracer(model, q, 64, 48):
        error = np.abs(images.rgb[world, number].numpy().astype(int) - expected).max(axis=2)
        # Outlines and borders of shadows pass some pixels' centres by less than rounding.
        assert (error > 2).mean() < 0.003
        assert (images.geometry[world, number].numpy() != survey.geometry).mean() < 0.002
        kinds |= set(np.unique(survey.geometry))
    assert {model.geometry(name) for name in ("look0", "look1", "look2", "sail")} < kinds


@pytest.mark.parametrize("kinds", [["spot", "bulb", "panel", "head", "sky", "sun"], ["sky"], ["spot"]])
def test_lights_of_models_shine_as_in_the_ray_tracer(kinds):
    model = lit(kinds)
    q = coordinates(model, 3)
    q += torch.as_tensor(0.1 * np.random.default_rng(1).normal(size=q.shape), dtype=q.dtype)
    brightest = []
    for images, world, number, expected, _ in beside_the_tracer(model, q, 64, 48):
        error = np.abs(images.rgb[world, number].numpy().astype(int) - expected).max(axis=2)
        assert (error > 2).mean() < 0.004
        brightest.append(expected[24:].max())
    assert min(brightest) > 100


def test_random_lights_move_and_change_by_their_ranges():
    model = lit(["bulb", "spot", "sun", "sky"])
    cameras = sim.torch.Cameras(model, width=24, height=18)
    own, generator = cameras.looks("cpu"), torch.Generator().manual_seed(3)
    assert own.light_colors.shape == (1, 3, 3)
    looks = cameras.randomise(5, generator, shift=0.2, light=(0.5, 0.6), ambient=(2.0, 3.0))
    moved = (looks.light_positions - own.light_positions).abs()
    assert moved.max() <= 0.2 + 1e-6
    assert (moved.amax(dim=(0, 2)) > 0.05).all()
    factor = looks.light_colors / own.light_colors
    assert (factor >= 0.5 - 1e-6).all()
    assert (factor <= 0.6 + 1e-6).all()
    torch.testing.assert_close(looks.light_axes[:, :2], own.light_axes[:, :2].expand(5, 2, 3))
    assert (looks.light_axes[:, 2, 2] < 0.0).all()
    assert ((looks.ambient >= 2.0) & (looks.ambient <= 3.0)).all()
    assert len({picture.numpy().tobytes() for picture in cameras.draw(coordinates(model, 5), looks).rgb}) == 5


def test_round_shapes_are_those_of_the_ray_tracer_up_to_its_triangles():
    scene = sim.ModelBuilder()
    sizes = {"sphere": 0.3, "capsule": (0.15, 0.2), "cylinder": (0.2, 0.25), "ellipsoid": (0.3, 0.2, 0.25)}
    for number, (kind, size) in enumerate(sizes.items()):
        scene.add_geometry(
            "world",
            kind,
            size=size,
            position=(0.8 * number - 1.2, 0.0, 0.0),
            orientation=(0.3, 0, 0, np.sqrt(0.91)),
            rgba=(0.7, 0.4, 0.3, 1.0),
        )
    scene.add_camera("side", position=(0.0, -3.5, 0.0), orientation=ALONG_Y, fov=35.0)
    model = scene.finalize()
    ((images, _, _, expected, survey),) = beside_the_tracer(model, coordinates(model, 1), 160, 60)
    error = np.abs(images.rgb[0, 0].numpy().astype(int) - expected).max(axis=2)
    assert len(np.unique(survey.geometry)) == 5
    assert np.quantile(error, 0.97) <= 3
    assert error.mean() < 1.0


def test_texels_have_their_own_colours():
    """A plane in the light of the sky alone, with a pixel in the middle of each texel."""
    scene = sim.ModelBuilder()
    texture = sim.Texture(BOARD)
    scene.add_geometry("world", "plane", rgba=WHITE, material=sim.Material(texture=texture, repeat=(0.5, 0.5)))
    scene.add_camera("above", position=(0.0, 0.0, 1.0), fov=90.0)
    model = scene.finalize()
    cameras = sim.torch.Cameras(model, width=12, height=12)  # nine pixels of a texel
    rgb = cameras.draw(
        coordinates(model, 2), lights(cameras, 2, ambient=0.9)._replace(light_colors=torch.zeros(1, 1, 3))
    ).rgb
    sky = 0.9 * OVERHEAD
    expected = encoded(linear_light(BOARD / 255.0) * sky)
    for world in range(2):
        np.testing.assert_allclose(rgb[world, 0, 1::3, 1::3], expected, atol=0.6)


@pytest.mark.parametrize("follows", ["link", "point", "centre of mass"])
def test_cameras_follow_as_the_renderers_do(follows):
    scene = sim.ModelBuilder()
    scene.add_geometry("world", "box", size=(3.0, 0.1, 3.0), position=(0.0, 3.0, 0.0))
    scene.add_box(half_extents=(0.1, 0.2, 0.3), mass=1.0, position=(0.0, 0.0, 0.5), name="base")
    scene.add_link("arm", mass=2.0, inertia=(0.1, 0.1, 0.1), com=(0.0, 0.3, 0.5))
    scene.add_joint("hinge", "revolute", parent="base", child="arm", axis=(1.0, 0.0, 0.0))
    orientation = np.array([0.6, 0.1, 0.0, 0.8])
    scene.add_camera(
        "eye",
        "base",
        position=(0.1, 0.4, 0.2),
        orientation=orientation / np.linalg.norm(orientation),
        follows=follows,
        point=(0.0, 0.1, 0.05),
    )
    model = scene.finalize("float64")
    q = coordinates(model, 3)
    q += torch.as_tensor(0.3 * np.random.default_rng(0).normal(size=q.shape))
    images = sim.torch.Cameras(model, "eye", 24, 18).draw(q)
    seen = 0
    for world in range(3):
        poses = sim.forward_kinematics(model, q[world].numpy()[None]).numpy()[0]
        survey = Renderer(model, width=24, height=18, camera=view_of(model, "eye", poses), device="cpu").survey(poses)
        same = survey.geometry == images.geometry[world, 0].numpy()
        assert same.mean() > 0.99
        near = np.isfinite(survey.depth) & same
        np.testing.assert_allclose(images.depth[world, 0].numpy()[near], survey.depth[near], rtol=1e-4)
        seen += near.sum()
    assert seen > 300


def test_random_looks_repeat_by_their_seed_and_differ_between_worlds():
    model = furnished()
    cameras = sim.torch.Cameras(model, width=32, height=24)
    q, number = coordinates(model, 6), model.geometry("look0")

    def looks(seed=7, **options):
        return cameras.randomise(6, torch.Generator().manual_seed(seed), **options)

    for one, other in zip(looks(), looks(), strict=True):
        assert torch.equal(one, other)
    images = cameras.draw(q, looks())
    assert len({picture.numpy().tobytes() for picture in images.rgb}) == 6
    assert torch.equal(images.geometry[:1].expand_as(images.geometry), images.geometry)
    assert not torch.equal(cameras.draw(q, looks(8)).rgb, images.rgb)
    own, few = cameras.looks("cpu"), looks(geometries=["look0"], color=0.25)
    changed = (few.colors != own.colors).any(dim=2)
    assert changed[:, number].all()
    assert changed.sum() == 6
    assert ((few.colors - 0.75 * own.colors)[:, number] <= 0.25).all()
    height = -looks(elevation=(0.5, 0.6)).light_axes[:, 0, 2]
    assert (height >= np.sin(0.5) - 1e-6).all()
    assert (height <= np.sin(0.6) + 1e-6).all()


def test_each_world_is_drawn_with_its_own_row():
    """Also where the row of a model is that of all worlds, and with the colours of another model."""
    model = furnished()
    cameras = sim.torch.Cameras(model, width=32, height=24)
    q = coordinates(model, 3)
    q[:, 0] += torch.tensor([0.0, 0.2, 0.4])
    looks = cameras.randomise(3, torch.Generator().manual_seed(1))
    together = cameras.draw(q, looks)
    for world in range(3):
        alone = cameras.draw(q[world : world + 1], sim.torch.Looks(*(value[world : world + 1] for value in looks)))
        for one, other in zip(alone, together, strict=True):
            assert torch.equal(one[0], other[world])
    colors = [
        (*color, geometry.rgba[3]) for color, geometry in zip(looks.colors[0].tolist(), model.geometries, strict=True)
    ]
    painted = dataclasses.replace(
        model,
        geometries=tuple(
            dataclasses.replace(g, rgba=np.array(c)) for g, c in zip(model.geometries, colors, strict=True)
        ),
    )
    light = looks._replace(colors=cameras.looks("cpu").colors)
    repainted = sim.torch.Cameras(painted, width=32, height=24)
    expected = repainted.draw(
        q[:1], sim.torch.Looks(repainted.looks("cpu").colors, *(value[:1] for value in light[1:]))
    )
    assert torch.equal(expected.rgb[0], together.rgb[0])


def test_sizes_of_worlds_are_arguments():
    scene = sim.ModelBuilder()
    scene.add_geometry("world", "box", size=(0.1, 0.1, 0.1))
    scene.add_camera("above", position=(0.0, 0.0, 2.0), fov=20.0)
    model = scene.finalize("float64")
    cameras = sim.torch.Cameras(model, width=5, height=5)
    size = torch.tensor([[[0.1, 0.1, 0.1]], [[0.4, 0.4, 0.3]]], dtype=torch.float64)
    depth = cameras.draw(coordinates(model, 2), geometry_size=size).depth
    np.testing.assert_allclose(depth[:, 0, 2, 2], (1.9, 1.7), rtol=1e-6)
    lifted = torch.tensor([[0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 2.0]], dtype=torch.float64)
    assert cameras.draw(coordinates(model, 1), geometry_placement=lifted).depth[0, 0, 2, 2] == pytest.approx(1.4)


def test_memory_is_that_of_the_caller(monkeypatch):
    model = furnished()
    cameras = sim.torch.Cameras(model, width=16, height=12)
    q, looks = coordinates(model, 80), cameras.looks("cpu")
    first = cameras.draw(q, looks)
    out = cameras.images(80, "cpu")
    cameras.draw(q, looks, out=out)

    def none(*_, **__):
        raise AssertionError("memory was allocated")

    for name in ("empty", "zeros"):
        monkeypatch.setattr(wp, name, none)
        monkeypatch.setattr(torch, name, none)
    out.rgb.zero_()
    drawn = cameras.draw(q, looks, out=out)
    for one, other, expected in zip(drawn, out, first, strict=True):
        assert one is other
        assert torch.equal(one, expected)


def test_cameras_are_copied_and_draw_no_worlds():
    model = furnished()
    cameras = sim.torch.Cameras(model, "above", width=8, height=6)
    expected = cameras.draw(coordinates(model, 1)).rgb
    for twin in (copy.deepcopy(cameras), pickle.loads(pickle.dumps(cameras))):
        assert torch.equal(twin.draw(coordinates(model, 1)).rgb, expected)
    assert cameras.draw(coordinates(model, 0)).rgb.shape == (0, 1, 6, 8, 3)
    assert repr(cameras) == "Cameras(above; 8 x 6 pixels)"


def test_cameras_without_anything_to_see_show_the_sky():
    scene = sim.ModelBuilder()
    scene.add_camera("up", orientation=(1.0, 0.0, 0.0, 0.0))
    model = scene.finalize()
    images = sim.torch.Cameras(model, width=3, height=3).draw(coordinates(model, 2))
    np.testing.assert_allclose(images.rgb[:, 0, 1, 1], np.tile(encoded(ZENITH), (2, 1)), atol=0.6)
    assert images.depth.isinf().all()
    assert (images.geometry == -1).all()


def test_what_cameras_refuse():
    model = furnished()
    cameras, q = sim.torch.Cameras(model, width=8, height=6), coordinates(model, 2)
    looks, generator = cameras.looks("cpu"), torch.Generator()
    bare = sim.ModelBuilder()
    bare.add_ground()
    refuses(lambda: sim.torch.Cameras(bare.finalize()), "add_camera")
    refuses(lambda: sim.torch.Cameras(model, "behind"), "behind")
    refuses(lambda: sim.torch.Cameras(model, width=0), "0 x 64 pixels")
    refuses(lambda: sim.torch.Cameras(model, haze=-1.0), "haze")
    refuses(lambda: cameras.draw(q.double()), "q is of torch.float64")
    refuses(lambda: cameras.draw(q[0]), "q has shape")
    refuses(lambda: cameras.draw(q, looks._replace(light_axes=torch.ones(3, 1, 3))), "light_axes has shape")
    refuses(lambda: cameras.draw(q, looks._replace(colors=looks.colors.double())), "colors is of")
    refuses(lambda: cameras.draw(q, mass=torch.ones(2)), "unknown parameter 'mass'")
    refuses(lambda: cameras.draw(q, geometry_size=torch.ones(2, 3)), "geometry_size has shape")
    refuses(lambda: cameras.draw(q, out=cameras.images(3, "cpu")), "rgb of out")
    refuses(lambda: cameras.randomise(0, generator), "count is 0")
    refuses(lambda: cameras.randomise(2, generator, color=2.0), "color is 2.0")
    refuses(lambda: cameras.randomise(2, generator, elevation=(1.0, 0.5)), "elevation")
    refuses(lambda: cameras.randomise(2, generator, light=(0.5,)), "light")
    refuses(lambda: cameras.randomise(2, generator, geometries=["nothing"]), "nothing")
