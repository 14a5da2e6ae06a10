// Films of trained agents.
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>
#include <torch/torch.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "films/render_film.h"
#include "python/binding/binding.h"
#include "python/binding/loaded_agent.h"
#include "python/binding/signals.h"
#include "storage/settings.h"
#include "video/video_writer.h"

namespace engram::python {
namespace {

namespace py = pybind11;

// Writes the file, or returns uint8 [T, height, width, 3] where there is none.
std::optional<torch::Tensor> render(const std::filesystem::path& run, const std::string& weights,
                                    const Settings& task_settings, const std::optional<std::filesystem::path>& output,
                                    const Settings& film_options, bool greedy, bool show_memory) {
  FilmRequest request;
  OptionList list("");
  request.list_options(list);
  for (const auto& [name, value] : film_options) list.set(name, value);
  std::vector<std::uint8_t> pixels;
  if (output) {
    check_video_file(*output);
    request.output = output->string();
  } else {
    request.take_frame = [&](const RgbImage& frame) {
      pixels.insert(pixels.end(), frame.pixels.begin(), frame.pixels.end());
    };
  }
  const TrainedAgent agent = load_agent(run, weights, "cpu", task_settings);
  SignalCheck check;
  const RenderedFilm film = film_agent(agent, greedy ? ActionChoice::kGreedy : ActionChoice::kSample, show_memory,
                                       request, [&](const EpisodeOfFilm&) { check(); });
  if (output) return {};
  return torch::tensor(pixels, torch::kUInt8).view({film.frames, film.height, film.width, 3});
}

}  // namespace

void bind_films(py::module_& module) {
  module.def("render", &render, py::arg("run"), py::arg("weights"), py::arg("task_settings"), py::arg("output"),
             py::arg("film_options"), py::arg("greedy"), py::arg("show_memory"),
             py::call_guard<py::gil_scoped_release>());
}

}  // namespace engram::python
