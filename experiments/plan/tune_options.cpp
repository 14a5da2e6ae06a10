#include "experiments/plan/tune_options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "agents/run/config/config.h"
#include "base/error.h"
#include "base/rng.h"
#include "base/text/suggest.h"
#include "base/text/text.h"
#include "experiments/plan/lists.h"
#include "experiments/results/csv.h"

namespace engram {
namespace {

// The options of the section that are no settings to try.
struct TuneTexts {
  std::string seeds;
  int tries = 0;
  std::uint64_t draw_seed = 0;
  std::string rungs = "0.25,0.5,1";
  double keep = 0.5;

  void list_options(OptionList& list) {
    list.add("seeds", seeds, "of the tries, as in 100-101");
    list.add("tries", tries, {0, kMostTries}, "settings drawn from the grid for each task and backbone; 0: all of it");
    list.add("draw_seed", draw_seed, "what they are drawn by");
    list.add("rungs", rungs, "shares of run.steps after which the best tries go on, the last is 1");
    list.add("keep", keep, {0.01, 0.99}, "the share of a rung's tries that go on");
  }
};

[[noreturn]] void refuse(const std::string& key, const std::string& why) {
  throw SettingError("tune." + key, "tune." + key + " " + why);
}

// A setting to try says how an agent learns, not what it learns, how that is measured, or on what machine.
void check_may_be_tuned(const std::string& key) {
  const std::string section = key.substr(0, key.find('.'));
  const bool chooses = key == "memory.name" || key == "learner.name" || key == "learner.preset";
  if (chooses || section == "task" || section == "evaluation" || section == "adapters" || key == "run.seed" ||
      may_change_on_resume(key) || key == "run.metrics_every_steps" || key == "run.precision")
    refuse(key, "cannot be tuned: it does not say how an agent learns" +
                    std::string(chooses ? ", but which; there are sections for that" : ""));
}

// A value with commas stands in square brackets.
std::vector<std::string> values_of(const std::string& key, const std::string& text) {
  std::vector<std::string> values;
  for (const std::string& part : about_key("tune." + key, [&] { return split_list(text); })) {
    std::string value = without_blanks_around(part);
    if (value.size() > 2 && value.front() == '[' && value.back() == ']') value = value.substr(1, value.size() - 2);
    values.push_back(std::move(value));
  }
  if (values.empty() || std::ranges::count(values, "") > 0)
    refuse(key, "'" + text + "' is no list of values; as in 1,2");
  for (std::size_t i = 1; i < values.size(); ++i)
    if (std::find(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(i), values[i]) !=
        values.begin() + static_cast<std::ptrdiff_t>(i))
      refuse(key, "'" + text + "' has " + values[i] + " twice");
  return values;
}

std::vector<double> rungs_of(const std::string& text) {
  std::vector<double> rungs;
  for (const std::string& part : trimmed_parts(text, ',')) {
    double value = 0;
    if (!parse_whole(part, value) || !(value > (rungs.empty() ? 0 : rungs.back())) || value > 1)
      refuse("rungs", "'" + text + "' is not allowed; it takes ascending shares of run.steps, as in 0.25,0.5,1");
    rungs.push_back(value);
  }
  if (rungs.empty() || rungs.back() != 1) refuse("rungs", "'" + text + "' has to end with 1, the whole run");
  return rungs;
}

}  // namespace

TuneOptions TuneOptions::from_settings(const Settings& section, const std::vector<std::string>& known_keys) {
  TuneTexts texts;
  OptionList list("tune");
  texts.list_options(list);
  std::vector<std::string> own;
  for (const Option& option : list.options()) own.push_back(option.name.substr(option.name.find('.') + 1));
  TuneOptions tune;
  for (const auto& [key, value] : section) {
    if (std::ranges::find(own, key) != own.end()) {
      about_key("tune." + key, [&, &key = key, &value = value] { list.set("tune." + key, value); });
      continue;
    }
    if (std::ranges::find(known_keys, key) == known_keys.end()) {
      std::vector<std::string> all = own;
      all.insert(all.end(), known_keys.begin(), known_keys.end());
      throw SettingError("tune." + key, "unknown key 'tune." + key + "'" + did_you_mean(key, all));
    }
    check_may_be_tuned(key);
    std::erase_if(tune.settings, [&, &key = key](const TunedSetting& setting) { return setting.key == key; });
    tune.settings.push_back({key, values_of(key, value)});
  }
  if (texts.seeds.empty())
    throw SettingError("[tune]", "[tune] gives no seeds, which are to be none of the comparison's");
  tune.seeds = about_key("tune.seeds", [&] { return parse_seeds(texts.seeds); });
  if (tune.settings.empty())
    throw SettingError("[tune]", "[tune] gives no setting to try; as in learner.learning_rate = 3e-4, 1e-3");
  tune.tries = texts.tries;
  tune.draw_seed = texts.draw_seed;
  tune.keep = texts.keep;
  tune.rungs = rungs_of(texts.rungs);
  if (tune.tries == 0 && grid_size(tune.settings) > kMostTries)
    throw SettingError("[tune]",
                       "[tune] has a grid of more than " + std::to_string(kMostTries) + " tries; give tries = N");
  return tune;
}

std::string TuneOptions::to_ini() const {
  std::string shares;
  for (const double rung : rungs) shares += (shares.empty() ? "" : ",") + number_text(rung);
  std::string text = "[tune]\nseeds = " + seeds_text(seeds) + "\ntries = " + std::to_string(tries) +
                     "\ndraw_seed = " + std::to_string(draw_seed) + "\nrungs = " + shares +
                     "\nkeep = " + number_text(keep) + "\n";
  for (const TunedSetting& setting : settings) {
    std::string values;
    for (const std::string& value : setting.values)
      values.append(values.empty() ? "" : ", ")
          .append(value.find(',') == std::string::npos ? value : "[" + value + "]");
    text += setting.key + " = " + values + "\n";
  }
  return text;
}

std::size_t TuneOptions::kept_of(std::size_t tries) const {
  // A share of 1/3 of 9 is 3, whatever the product's last digit.
  const auto kept = static_cast<std::size_t>(std::ceil(keep * static_cast<double>(tries) - 1e-9));
  return std::clamp<std::size_t>(kept, 1, tries);
}

std::size_t grid_size(const std::vector<TunedSetting>& settings) {
  std::size_t size = 1;
  for (const TunedSetting& setting : settings) {
    if (setting.values.size() > kMostTries || size > kMostTries / setting.values.size()) return kMostTries + 1;
    size *= setting.values.size();
  }
  return size;
}

std::vector<Settings> tries_of(const std::vector<TunedSetting>& settings, int tries, std::uint64_t draw_seed) {
  // Places in the grid may be more than can be listed: those of the tries are drawn value by value.
  std::vector<Settings> drawn;
  const std::size_t size = grid_size(settings);
  const bool all = tries == 0 || static_cast<std::size_t>(tries) >= size;
  const auto at = [&](const std::vector<std::size_t>& place) {
    Settings values;
    for (std::size_t i = 0; i < settings.size(); ++i)
      values.emplace_back(settings[i].key, settings[i].values[place[i]]);
    return values;
  };
  std::vector<std::vector<std::size_t>> places;
  if (all) {
    std::vector<std::size_t> place(settings.size(), 0);
    for (std::size_t i = 0; i < size; ++i) {
      places.push_back(place);
      for (std::size_t digit = settings.size(); digit-- > 0 && ++place[digit] == settings[digit].values.size();)
        place[digit] = 0;
    }
  } else {
    Rng random(draw_seed, Purpose::kRun, 1, 0);
    while (places.size() < static_cast<std::size_t>(tries)) {
      std::vector<std::size_t> place;
      for (const TunedSetting& setting : settings)
        place.push_back(random.below(static_cast<std::uint32_t>(setting.values.size())));
      if (std::ranges::find(places, place) == places.end()) places.push_back(std::move(place));
    }
    std::ranges::sort(places);
  }
  for (const std::vector<std::size_t>& place : places) drawn.push_back(at(place));
  return drawn;
}

std::string settings_text(const Settings& settings) {
  std::string text;
  for (const auto& [key, value] : settings) text += (text.empty() ? "" : ", ") + key + " = " + value;
  return text;
}

}  // namespace engram
