"""What TensorBoard shows of a run: hyperparameters, histograms of the weights and the film of the final evaluation,
read with TensorBoard's own readers; also of a run that goes on.
usage: tensorboard_events.py ENGRAM video|no_video"""

import configparser
import re
import struct
import sys

import numpy
from tensorboard.backend.event_processing import data_provider, plugin_event_multiplexer
from tensorboard.context import RequestContext
from tensorboard.plugins import base_plugin
from tensorboard.plugins.hparams import api_pb2, backend_context, get_experiment, list_session_groups
from tensorboard.util import tensor_util

from program import engram, metrics, scratch_folder, tiny, weights, with_changes

VIDEO = sys.argv[2] == "video"
TINY = tiny("--task.name=visual_match", "--task.explore_steps=2", "--task.distractor_steps=5", "--task.reward_steps=4",
            "--memory.name=gru", "--learner.alpha=0.01", "--evaluation.every_steps=50", "--evaluation.final_episodes=3")


def train(*arguments):
    engram("train", *arguments, saying=None, timeout=300)


class Board:
    """What TensorBoard's server has of the runs under a folder."""

    def __init__(self, folder):
        self.multiplexer = plugin_event_multiplexer.EventMultiplexer(
            tensor_size_guidance={"images": 0, "histograms": 0})
        self.multiplexer.AddRunsFromDirectory(str(folder))
        self.multiplexer.Reload()
        self.provider = data_provider.MultiplexerDataProvider(self.multiplexer, str(folder))
        self.hparams = backend_context.Context(base_plugin.TBContext(data_provider=self.provider))

    def experiment(self):
        return get_experiment.Handler(RequestContext(), self.hparams, "", api_pb2.GetExperimentRequest()).run()

    def sessions(self):
        statuses = [api_pb2.STATUS_UNKNOWN, api_pb2.STATUS_SUCCESS, api_pb2.STATUS_FAILURE, api_pb2.STATUS_RUNNING]
        request = api_pb2.ListSessionGroupsRequest(start_index=0, slice_size=100, allowed_statuses=statuses)
        return list_session_groups.Handler(RequestContext(), self.hparams, "", request).run().session_groups

    def tensors(self, run, tag):
        return [(event.step, tensor_util.make_ndarray(event.tensor_proto))
                for event in self.multiplexer.Tensors(run, tag)]

    def has(self, run, tag):
        return tag in self.multiplexer.Runs()[run]["tensors"]


def check_hyperparameters(folder):
    board = Board(folder)
    infos = {info.name: info for info in board.experiment().hparam_infos}
    config = configparser.ConfigParser()
    config.read_string("[top]\n" + (folder / "a/config.ini").read_text())
    may_change = {"run.steps", "run.max_seconds", "run.threads", "run.device", "run.kernels", "run.gpu_wait",
                  "run.report_seconds", "run.on_nan", "evaluation.stop_at_success", "evaluation.final_episodes"}
    keys = {f"{section}.{key}" for section in config.sections() for key in config[section]
            if section not in ("top", "checkpoint")}
    assert set(infos) == keys - may_change, set(infos) ^ (keys - may_change)
    assert {name for name, info in infos.items() if info.differs} == {"run.seed", "memory.name", "memory.width"}, infos

    sessions = {group.sessions[0].name: group for group in board.sessions()}
    assert set(sessions) == {"a", "b"}, sessions
    hparams = sessions["a"].hparams
    assert hparams["memory.name"].string_value == "gru" and sessions["b"].hparams["memory.name"].string_value == "lstm"
    assert hparams["run.seed"].number_value == 3
    assert sessions["b"].hparams["run.seed"].string_value == "18446744073709551615"
    assert hparams["learner.alpha"].number_value == 0.01 and hparams["task.active"].bool_value is False
    assert hparams["task.active"].HasField("bool_value") and hparams["task.colours"].string_value == "episode"
    session = sessions["a"].sessions[0]
    assert session.status == api_pb2.STATUS_SUCCESS and session.end_time_secs >= session.start_time_secs > 1e9, session
    shown = {(value.name.group, value.name.tag): value.value for value in session.metric_values}
    final = metrics(folder / "a", "final")[0]
    assert shown["", "final/success"] == struct.unpack("f", struct.pack("f", final["success"]))[0], shown


def check_histograms(folder):
    board = Board(folder)
    evaluations = [row["environment_steps"] for row in metrics(folder / "a", "evaluation")]
    last = weights(folder / "a")
    groups = {"backbone": ["backbone."], "actor": ["actor."], "critics": ["critic1.", "critic2."],
              "encoder": ["observation.", "convolution1.", "convolution2."]}
    for group, prefixes in groups.items():
        series = board.tensors("a", f"weights/{group}")
        assert [step for step, _ in series] == evaluations, (group, series)
        values = numpy.concatenate([tensor.ravel() for name, tensor in last.items()
                                    if name.startswith(tuple(prefixes))]).astype(numpy.float64)
        left, right, count = series[-1][1].T  # of the last evaluation, which the last weights are of
        expected, edges = numpy.histogram(values, bins=30)
        assert numpy.isclose(left[0], values.min()) and numpy.isclose(right[-1], values.max()), group
        assert count.sum() == values.size and len(count) == 30, (group, count)
        # A weight at the edge of a bucket may be rounded to either side.
        assert numpy.abs(count - expected).sum() <= 4, (group, count, expected)
        assert numpy.allclose(right, edges[1:], atol=1e-6), (group, right, edges)
    covered = sum(tensor.size for name, tensor in last.items() if name.startswith(tuple(sum(groups.values(), []))))
    targets = sum(tensor.size for name, tensor in last.items() if name.startswith("target_"))
    assert covered + targets == sum(tensor.size for tensor in last.values())


def films(folder, run):
    """Step, width, height and bytes of the films of a run, as the image plugin has them."""
    board = Board(folder)
    if not board.has(run, "final/episode"):
        return []
    plugin = board.multiplexer.SummaryMetadata(run, "final/episode").plugin_data.plugin_name
    assert plugin == "images", plugin
    return [(step, int(data[0]), int(data[1]), data[2]) for step, data in board.tensors(run, "final/episode")]


def check_film(folder, run, moments):
    (step, width, height, gif), = films(folder, run)
    assert step == metrics(folder / run, "final")[-1]["environment_steps"]
    assert gif[:6] == b"GIF89a" and gif[-1:] == b";", gif[:10]
    assert struct.unpack("<HH", gif[6:10]) == (width, height) and width > 500, (width, height)
    # Each graphic control extension, with the image descriptor behind it.
    controls = re.findall(rb"\x21\xf9\x04.(..).\x00\x2c", gif, re.DOTALL)
    delays = [struct.unpack("<H", delay)[0] for delay in controls]
    # Each moment for 0.1 s, equal ones together; the last for 1.5 s.
    assert sum(delays) == 10 * (moments - 1) + 150 and delays[-1] == 150, delays
    assert len(gif) < 1_000_000, len(gif)


folder = scratch_folder()
train("a", *with_changes(TINY, "--run.steps=120", "--seed=3"))
train("b", *with_changes(TINY, "--run.steps=30", "--memory.name=lstm", "--memory.width=9",
                         "--seed=18446744073709551615"))
check_hyperparameters(folder)
check_histograms(folder)
if not VIDEO:
    assert films(folder, "a") == []
else:
    check_film(folder, "a", 12)
# A finished run that goes on has one film, of its new end, and its hyperparameters still.
train("--resume=a", "--run.steps=200")
if VIDEO:
    check_film(folder, "a", 12)
check_hyperparameters(folder)
check_histograms(folder)
assert len(Board(folder).multiplexer.Tensors("a", "_hparams_/session_end_info")) == 1
# A long episode is thinned out, and without a final evaluation there is no film.
train("long", *with_changes(TINY, "--task.distractor_steps=594", "--run.steps=700", "--evaluation.every_steps=100000",
                            "--evaluation.episodes=1", "--evaluation.final_episodes=1"))
if VIDEO:
    check_film(folder, "long", 200 + 1)
train("none", *with_changes(TINY, "--run.steps=30", "--evaluation.final_episodes=0"))
assert films(folder, "none") == []
