"""The report of a rehearsal: timeline picture and `result.json`."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from PIL import Image

from live.verify import Step
from rehearsal.report import Result, Sample, draw_timeline


def sample(second: int, rate: float) -> Sample:
    return Sample(second, rate, 23.0 if rate else 0.0, 20, 1, 1, 1)


def background(picture: Image.Image, fraction: float) -> tuple[int, ...]:
    """Return the most common colour of the pixel column at this fraction of the width."""
    rgb = picture.convert("RGB")
    column = round(fraction * rgb.width)
    colours = Counter(rgb.getpixel((column, row)) for row in range(rgb.height))
    colour = colours.most_common(1)[0][0]
    assert isinstance(colour, tuple)
    return colour


def test_only_the_time_under_load_is_shaded(tmp_path: Path) -> None:
    samples = [sample(second, 250 if second < 50 else 0) for second in range(100)]
    draw_timeline(tmp_path / "timeline.png", samples, "DCGM_CUSTOM_PROCESS_SM_UTIL")
    with Image.open(tmp_path / "timeline.png") as picture:
        assert picture.size == (1200, 900)
        assert background(picture, 0.25) != (255, 255, 255)
        assert background(picture, 0.73) == (255, 255, 255)


@pytest.mark.filterwarnings("error")
def test_a_single_sample_without_a_reading_can_be_drawn(tmp_path: Path) -> None:
    path = tmp_path / "timeline.png"
    draw_timeline(path, [Sample(0.5, 0, None, 20, 1, 0, 0)], "DCGM_CUSTOM_PROCESS_SM_UTIL")
    assert path.stat().st_size > 0


def test_the_result_has_the_documented_keys(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    result = Result(
        steps=[Step("a step", "this", "that", False)],
        seconds={"tools": 0.1},
        replicas={"start": 1, "peak": 2, "end": 1},
        second_preview_changes=0,
    )
    result.write(path)
    assert json.loads(path.read_text()) == {
        "steps": [{"name": "a step", "expected": "this", "observed": "that", "ok": False}],
        "seconds": {"tools": 0.1},
        "replicas": {"start": 1, "peak": 2, "end": 1},
        "second_preview_changes": 0,
        "leftovers": [],
    }


def test_the_timeline_is_large_enough_to_read_and_allows_gaps(tmp_path: Path) -> None:
    samples = [Sample(float(second), 0, None if second < 3 else 23.0, 20, 1, 1, 1) for second in range(10)]
    draw_timeline(tmp_path / "timeline.png", samples, "DCGM_CUSTOM_PROCESS_SM_UTIL")
    with Image.open(tmp_path / "timeline.png") as picture:
        assert picture.format == "PNG"
        assert min(picture.size) >= 900
