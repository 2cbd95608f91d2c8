"""Signs of life."""

from pathlib import Path

from streaming.runtime.liveness import touch_liveness_file


def test_a_program_touches_its_own_file(tmp_path: Path):
    touch_liveness_file(str(tmp_path), "collector")
    assert [path.name for path in tmp_path.iterdir()] == ["collector.alive"]
    old = (tmp_path / "collector.alive").stat().st_mtime_ns
    touch_liveness_file(str(tmp_path), "collector")
    assert (tmp_path / "collector.alive").stat().st_mtime_ns >= old


def test_without_a_folder_nothing_is_touched_and_a_folder_that_is_gone_ends_nothing(tmp_path: Path):
    touch_liveness_file("", "query")
    touch_liveness_file(str(tmp_path / "gone"), "query")
    assert list(tmp_path.iterdir()) == []
