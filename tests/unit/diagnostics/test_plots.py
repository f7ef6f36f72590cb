"""Pictures are there, labelled, and overwrite nothing; what they look like was looked at."""

import numpy as np
import pytest

from ergodica.diagnostics.bias import Bias
from ergodica.diagnostics.plots import bias_against_step, plot, window
from ergodica.errors import InputError
from tests.unit.diagnostics.chains import SETTINGS, a_run, autoregressive, statistics

X = autoregressive(draws=100, size=2)


def test_every_picture(tmp_path):
    halved = a_run({"w": autoregressive(draws=200, size=2, seed=7)}, statistics(draws=200, step_size=0.05))
    paths = plot({"w": X}, statistics(draws=100), SETTINGS, halved=halved, folder=tmp_path / "new")
    assert [path.name for path in paths] == ["trace.png", "marginals.png", "running_mean.png", "pairs.png", "bias.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)
    with pytest.raises(InputError, match=r"trace.png exists already"):
        plot({"w": X}, statistics(draws=100), SETTINGS, folder=tmp_path / "new")


def test_axes_are_labelled():
    compared = Bias(["a", "b"], np.array([0.1, 0.0]), np.full(2, 0.02), np.array([0.3, 0.1]), np.full(2, 0.02), 1)
    left, right = bias_against_step(compared, 0.2).axes
    assert left.get_xlabel() == right.get_xlabel() == "step size"
    assert left.get_ylabel() == "bias of means, in sds (order 1)"
    # the difference of 0.3 between h and h/2 is half the bias at h
    assert right.containers[0].lines[0].get_ydata()[1] == pytest.approx(0.6)


@pytest.mark.parametrize(("posterior", "message"), [(None, "only moments"), ({"w": X[:, :5]}, "too few draws")])
def test_nothing_to_draw(tmp_path, posterior, message):
    with pytest.raises(InputError, match=message):
        plot(posterior, {}, {}, folder=tmp_path)


def test_a_few_draws_far_out_leave_room_for_the_rest():
    x = autoregressive(draws=1000, size=1)[:, :, 0]
    assert window(x) == pytest.approx((x.min(), x.max()))
    x[1, ::40] = 1e6
    low, high = window(x)
    assert -6 < low < -2 < 2 < high < 6
    x[1, ::4] = 1e6  # 6 %: that is another mode
    assert window(x)[1] == 1e6
