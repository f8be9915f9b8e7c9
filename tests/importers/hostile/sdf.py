"""SDF files that mean harm: values in every place of a valid file, and models that refer to themselves."""

# Files are easier to read in whole lines.
# ruff: noqa: E501

from collections.abc import Iterator, Sequence

SLOTS = {
    "<gravity>{}</gravity>": "0 0 -9", "<pose relative_to='f'>{}</pose>": "0 0 1 0 0 0", "<mass>{}</mass>": "1", "<ixx>{}</ixx>": "1",
    "<radius>{}</radius>": "0.1", "<size>{}</size>": "1 1 1", "<normal>{}</normal>": "0 0 1", "<xyz>{}</xyz>": "1 0 0",
    "<lower>{}</lower>": "-1", "<effort>{}</effort>": "9", "<damping>{}</damping>": "0.1",
    "<spring_stiffness>{}</spring_stiffness>": "3", "<multiplier>{}</multiplier>": "2", "<mu>{}</mu>": "0.5",
    "<diffuse>{}</diffuse>": "1 0 0 1", "<static>{}</static>": "true", "version='{}'": "1.9", "attached_to='{}'": "a",
    "<parent>{}</parent>": "a", "<child>{}</child>": "b", "type='{}'": "revolute", "<uri>{}</uri>": "nothing.stl",
    "expressed_in='{}'": "f", "<model name='{}'>": "r",
}  # fmt: skip
SDF = """<sdf version='1.9'><world name='w'><gravity>0 0 -9</gravity>
<model name='ground'><static>true</static><link name='g'><collision name='c'><geometry><plane><normal>0 0 1</normal></plane></geometry>
<surface><friction><ode><mu>0.5</mu></ode></friction></surface></collision></link></model>
<model name='r'><frame name='f' attached_to='a'/>
<link name='a'><inertial><mass>1</mass><inertia><ixx>1</ixx></inertia></inertial>
<collision name='c'><geometry><sphere><radius>0.1</radius></sphere></geometry></collision>
<visual name='v'><geometry><box><size>1 1 1</size></box></geometry><material><diffuse>1 0 0 1</diffuse></material></visual></link>
<link name='b'><pose relative_to='f'>0 0 1 0 0 0</pose></link>
<link name='m'/>
<joint name='j' type='revolute'><parent>a</parent><child>b</child><axis><xyz expressed_in='f'>0 1 0</xyz>
<limit><lower>-1</lower><effort>9</effort></limit><dynamics><damping>0.1</damping><spring_stiffness>3</spring_stiffness></dynamics></axis></joint>
<joint name='k' type='continuous'><parent>b</parent><child>m</child><axis><xyz>1 0 0</xyz>
<mimic joint='j'><multiplier>2</multiplier></mimic></axis></joint>
</model></world></sdf>"""
MESH = "<link name='m'><collision name='c'><geometry><mesh><uri>nothing.stl</uri></mesh></geometry></collision></link>"
MODEL = "<sdf version='1.9'><model name='{name}'>{inside}</model></sdf>"


def sdfs(values: Sequence[str], paths: Sequence[str]) -> Iterator[tuple[str, str | bytes]]:
    """Names and contents; ``paths`` are names of mesh files."""
    for index, (slot, good) in enumerate(SLOTS.items()):
        text = SDF if slot.format(good) in SDF else SDF.replace("<link name='m'/>", MESH)
        assert slot.format(good) in text, slot
        for number, value in enumerate(values):
            yield f"s_{index}_{number}.sdf", text.replace(slot.format(good), slot.format(value))
    whole = SDF.replace("<link name='m'/>", MESH)
    for number, path in enumerate(paths):
        yield f"s_mesh_{number}.sdf", whole.replace("nothing.stl", path)
    include = "<include><uri>{}</uri><name>{}</name></include>"
    deep = "".join(f"<model name='m{k}'>" for k in range(3000)) + "</model>" * 3000
    frames = "".join(f"<frame name='f{k}' attached_to='f{k + 1}'/>" for k in range(20_000))
    yield from (
        ("s_itself.sdf", MODEL.format(name="i", inside="<link name='a'/>" + include.format("s_itself.sdf", "x"))),
        ("s_twice.sdf", MODEL.format(name="i", inside=include.format("s_twice.sdf", "x") + include.format("s_twice.sdf", "y"))),
        ("s_zero.sdf", MODEL.format(name="i", inside=include.format("/dev/zero", "x"))),
        ("s_deep.sdf", MODEL.format(name="i", inside=deep)),
        ("s_chain.sdf", MODEL.format(name="i", inside="<link name='a'/>" + frames)),
        ("s_circle.sdf", SDF.replace("<frame name='f' attached_to='a'/>", "<frame name='f' attached_to='h'/><frame name='h' attached_to='f'/>")),
        ("s_loop.sdf", SDF.replace("<parent>a</parent>", "<parent>m</parent>")),
        ("s_empty.sdf", "<sdf version='1.9'/>"), ("s_other.sdf", "<robot name='r'/>"),
        ("s_names.sdf", SDF.replace("name='b'", "name='a'")),
    )  # fmt: skip
