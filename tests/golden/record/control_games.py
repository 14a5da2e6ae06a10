"""What the recorders of POPGym's cart-poles and pendulums share."""

import copy
import decimal

import numpy


class CorrectlyRounded:
    """numpy with sine and cosine rounded correctly."""

    def __getattr__(self, name):
        return getattr(numpy, name)

    @staticmethod
    def series(x, first):
        # Digits and terms for some hundred radians: a pendulum's angle is not wrapped.
        with decimal.localcontext(prec=200):
            square = decimal.Decimal(float(x)) ** 2
            term = total = decimal.Decimal(float(x)) if first else decimal.Decimal(1)
            for k in range(1, 300):
                term = -term * square / ((2 * k + first) * (2 * k + first - 1))
                total += term
            return numpy.float64(total)

    def sin(self, x):
        return self.series(x, 1)

    def cos(self, x):
        return self.series(x, 0)


def floats(numbers):
    """float32 numbers, written as short as reads back to the same."""
    numbers = numpy.asarray(numbers)
    assert numbers.dtype == numpy.float32
    written = [float(str(number)) for number in numbers]
    assert [numpy.float32(number) for number in written] == list(numbers)
    return written


def watch_noise(game):
    """A list that gets the noise of each observation of a game that adds some; it stays empty of another."""
    drawn = []
    if not hasattr(game, "noise_sigma"):
        return drawn
    add = type(game).add_noise_to_obs

    def watched(observation):
        noise = copy.deepcopy(game.np_random).normal(0, game.noise_sigma).astype(numpy.float32)
        noisy = add(game, observation)
        space = game.observation_space
        assert numpy.array_equal(noisy, numpy.clip(observation + noise, space.low, space.high))
        drawn.append(floats(noise))
        return noisy

    game.add_noise_to_obs = watched
    return drawn
