"""Addresses of Gazebo Fuel in SDF files, which are found in folders of this machine."""

import pytest
import trimesh
from numpy.testing import assert_allclose

import sim
from tests.errors import strictly

ADDRESS = "https://fuel.gazebosim.org/1.0/OpenRobotics/models/Big%20Box"
OUTSIDE = ADDRESS.replace("Big%20Box", "..%2Foutside")
MODEL = """<sdf version='1.9'><model name='box'><link name='body'><pose>0 0 {} 0 0 0</pose>
<collision name='c'><geometry><mesh><uri>{}</uri></mesh></geometry></collision></link></model></sdf>"""
WORLD = """<sdf version='1.9'><world name='w'><include><uri>{}</uri></include></world></sdf>"""


@pytest.fixture(autouse=True)
def no_folders(monkeypatch, tmp_path):
    for name in ("GZ_SIM_RESOURCE_PATH", "GZ_FUEL_CACHE_PATH", "IGN_FUEL_CACHE_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def put(folder, height, mesh="meshes/box.stl"):
    (folder / "meshes").mkdir(parents=True)
    (folder / "model.sdf").write_text(MODEL.format(height, mesh))
    trimesh.creation.box((1, 2, 3)).export(folder / "meshes/box.stl")


def height_of(tmp_path, address):
    (tmp_path / "worlds").mkdir(exist_ok=True)
    path = tmp_path / "worlds/w.sdf"
    path.write_text(WORLD.format(address))
    model = strictly(sim.load, path)
    assert_allclose(abs(model.geometries[0].mesh.vertices).max(axis=0), (0.5, 1.0, 1.5))
    return model.q0[2]


def in_cache(root, version):
    return root / "fuel.gazebosim.org/openrobotics/models/big box" / version


@pytest.mark.parametrize(("suffix", "height"), [("", 10), ("/tip", 10), ("/9", 9), ("/2", 2)])
def test_versions_of_downloaded_models(tmp_path, suffix, height):
    """The newest version, by its number, unless one is asked for; the mesh is named by an address, too."""
    for version in ("2", "9", "10"):
        mesh = f"{ADDRESS}/{version}/files/meshes/box.stl"
        put(in_cache(tmp_path / "home/.gz/fuel", version), int(version), mesh)
    assert height_of(tmp_path, ADDRESS + suffix) == height


def test_caches_of_the_environment(tmp_path, monkeypatch):
    put(in_cache(tmp_path / "cache", "1"), 5)
    with pytest.raises(sim.ImportFileError, match=r"searched Gazebo's folder of downloaded models, .* package_dirs"):
        height_of(tmp_path, ADDRESS)
    monkeypatch.setenv("GZ_FUEL_CACHE_PATH", str(tmp_path / "cache"))
    assert height_of(tmp_path, ADDRESS) == 5
    with pytest.raises(sim.ImportFileError, match="not found"):
        height_of(tmp_path, ADDRESS + "/2")


def test_folders_of_models(tmp_path, monkeypatch):
    """A folder with the name of the model, as of a workspace with copies of models."""
    put(tmp_path / "copies/Big Box", 7, f"{ADDRESS}/3/files/meshes/box.stl")
    monkeypatch.setenv("GZ_SIM_RESOURCE_PATH", str(tmp_path / "copies"))
    assert height_of(tmp_path, ADDRESS) == 7
    assert height_of(tmp_path, "model://Big Box") == 7


@pytest.mark.parametrize("address", ["https://example.org/box.sdf", ADDRESS.replace("Big%20Box", ".."), OUTSIDE])
def test_other_addresses(tmp_path, monkeypatch, address):
    put(tmp_path / "outside", 1, f"{ADDRESS}/3/files/meshes/box.stl")
    (tmp_path / "copies").mkdir()
    monkeypatch.setenv("GZ_SIM_RESOURCE_PATH", str(tmp_path / "copies"))
    with pytest.raises(sim.ImportFileError, match=r"is not supported|not found"):
        height_of(tmp_path, address)


def test_unbounded_friction(tmp_path):
    """As in Gazebo, which takes the smaller of two, a pair has the friction of the other collider."""
    geometry = "<geometry><sphere><radius>1</radius></sphere></geometry>"
    surface = "<surface><friction><ode><mu>-1</mu></ode></friction></surface>"
    path = tmp_path / "r.sdf"
    path.write_text(
        f"<sdf version='1.9'><model name='r'><link name='a'><collision name='c'>{geometry}{surface}</collision>"
        f"<collision name='d'>{geometry}{surface}</collision></link></model></sdf>"
    )
    with pytest.warns(sim.SDFWarning, match="unbounded friction in Gazebo, is read as 1") as said:
        model = sim.load(path)
    assert str(said[0].message).count("negative mu") == 1
    assert model.parameters["friction"].tolist() == [1.0, 1.0]
