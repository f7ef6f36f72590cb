"""A recipe with one sign changed: Gamma is subtracted where it should be added."""

import ergodica as eg


class Flipped(eg.Recipe):
    def gamma(self, point, key=None):
        return {slot: value.scaled(-1) for slot, value in super().gamma(point, key).items()}


def sgrld(inverse_metric):
    return Flipped(diffusion={"position": inverse_metric})
