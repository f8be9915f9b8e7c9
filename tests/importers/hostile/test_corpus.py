"""The hostile corpus: each file ends in a model or an ImportFileError, within 5 s of processor time and 1 GB."""

import queue
import threading
import warnings

import pytest

import sim
from sim.importers.untrusted import Limits, ReadingProcess
from tests.importers.hostile import features
from tests.importers.hostile.corpus import make_corpus, mjcfs, urdfs

LIMITS = Limits(seconds=60.0, cpu_seconds=5.0, memory=1e9)
# What a process says that hit its limits or crashed.
ENDED = ("made the process", "took more than", "took longer", "needs more than")


def outcomes(paths):
    """For each file None or its error, read by two processes."""
    waiting, found = queue.SimpleQueue(), {}
    for path in paths:
        waiting.put(path)

    def work():
        with ReadingProcess(LIMITS) as process:
            while not waiting.empty():
                try:
                    path = waiting.get_nowait()
                except queue.Empty:
                    return
                try:
                    process.load(path, {})
                    found[path] = None
                except Exception as error:
                    found[path] = error

    threads = [threading.Thread(target=work) for _ in range(2)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return found


def test_each_file_has_a_name_of_its_own():
    names = [name for name, _ in (*urdfs(), *mjcfs(), *features.mjcfs(), *features.usds())]
    assert len(names) == len(set(names))


def test_every_file_ends_in_a_model_or_an_import_error(tmp_path):
    paths = make_corpus(tmp_path)
    assert len(paths) == len(set(paths)) >= 300
    found = outcomes(paths)
    assert found.keys() == set(paths)
    wrong = {path.name: error for path, error in found.items() if error and type(error) is not sim.ImportFileError}
    assert not wrong
    unnamed = {path.name: str(error) for path, error in found.items() if error and str(path) not in str(error)}
    assert not unnamed
    # pxr crashes on some files; the other readers end by themselves.
    ended = {path.name: str(error) for path, error in found.items() if any(word in str(error) for word in ENDED)}
    assert {name: text for name, text in ended.items() if ".usd" not in name} == {}
    assert sum(error is None for error in found.values()) > 30
    # What the changed files were made from is read, with all that is changed in them.
    assert [found[tmp_path / name] for name in ("features.xml", "d6.usda")] == [None, None]


def test_what_the_features_are_made_from_is_read_whole(tmp_path):
    """Or a change of one of them would show nothing."""
    (tmp_path / "features.xml").write_text(features.MJCF)
    with pytest.warns(sim.MJCFWarning):
        model = sim.load(tmp_path / "features.xml")
    assert (len(model.tendons.names), len(model.sensors), model.na) == (2, 5, 3)
    assert len(model.equalities.anchor_names) == 2
    assert model.kinematic_links
    (tmp_path / "d6.usda").write_text(features.USDA)
    with pytest.warns(sim.USDWarning):
        assert sim.load(tmp_path / "d6.usda").nv == 6 + 4


def test_the_corpus_is_the_same_every_time(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    made = [make_corpus(tmp_path / folder) for folder in ("a", "b")]
    assert all(a.name == b.name and a.read_bytes() == b.read_bytes() for a, b in zip(*made, strict=True))
