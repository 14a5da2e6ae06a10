"""Makes rliable.json: scores, and what rliable itself says of them.
usage: python3 make_rliable.py > rliable.json    (pip install rliable==1.2.0; some minutes)

"interval" is rliable's 95% interval. "low_range" and "high_range" say how far another bootstrap of as many resamples may
be from it: a quantile p of B resamples stands at the true quantile p +- sqrt(p (1 - p) / B), and two bootstraps differ
by sqrt(2) times that. The ranges are the quantiles of rliable's own resamples at p +- 5 of these standard deviations.
"""

import json
import sys

import numpy
from rliable import library, metrics

RESAMPLES = 50_000
PAIR_RESAMPLES = 10_000  # scipy's Mann-Whitney test is slow
THRESHOLDS = numpy.array([index / 100 for index in range(101)])


def noise(resamples):
    return 5 * numpy.sqrt(2 * 0.025 * 0.975 / resamples)


def estimate(bootstrap, function, point, resamples):
    values = bootstrap.apply(function, reps=resamples)
    result = []
    for index, value in enumerate(point):
        column = values[:, index]
        delta = 100 * noise(resamples)
        result.append({
            "value": float(value),
            "interval": [float(end) for end in numpy.percentile(column, [2.5, 97.5])],
            "low_range": [float(end) for end in numpy.percentile(column, [2.5 - delta, 2.5 + delta])],
            "high_range": [float(end) for end in numpy.percentile(column, [97.5 - delta, 97.5 + delta])],
        })
    return result


def aggregates(scores):
    return numpy.array([metrics.aggregate_iqm(scores), metrics.aggregate_mean(scores), metrics.aggregate_median(scores),
                        metrics.aggregate_optimality_gap(scores)])


def main():
    generator = numpy.random.default_rng(20240607)
    tasks = ["t%d" % index for index in range(5)]
    strength = generator.uniform(0.3, 3, size=(3, 5))
    scores = {
        "fine": generator.beta(strength[0], 1.0, size=(10, 5)),
        # Successes of 20 episodes: many ties, and ends of intervals on a lattice.
        "coarse": numpy.round(20 * generator.beta(strength[1], 1.5, size=(10, 5))) / 20,
        # Above 1, which the optimality gap does not reward.
        "beyond": 1.4 * generator.beta(strength[2], 0.7, size=(10, 5)),
        # Runs that solve a task or do not, of which some task is solved by all.
        "binary": (generator.uniform(size=(10, 5)) < numpy.array([1.0, 0.9, 0.6, 0.3, 0.1])).astype(float),
    }
    golden = {"rliable": "1.2.0", "tasks": tasks, "resamples": RESAMPLES, "pair_resamples": PAIR_RESAMPLES,
              "scores": {name: matrix.T.tolist() for name, matrix in scores.items()}, "aggregates": {},
              "improvement": [], "profiles": {}}
    numpy.random.seed(1)
    for name, matrix in scores.items():
        bootstrap = library.StratifiedBootstrap(matrix)
        figures = estimate(bootstrap, aggregates, aggregates(matrix), RESAMPLES)
        golden["aggregates"][name] = dict(zip(("iqm", "mean", "median", "optimality_gap"), figures))
        golden["profiles"][name] = library.score_distributions(matrix, THRESHOLDS).tolist()
        print(name, file=sys.stderr)
    names = list(scores)
    for x in range(len(names)):
        for y in range(x + 1, len(names)):
            pair = scores[names[x]], scores[names[y]]
            function = lambda a, b: numpy.array([metrics.probability_of_improvement(a, b)])
            figure = estimate(library.StratifiedIndependentBootstrap(*pair), function, function(*pair), PAIR_RESAMPLES)
            golden["improvement"].append({"x": names[x], "y": names[y], **figure[0]})
            print(names[x], names[y], file=sys.stderr)
    json.dump(golden, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
