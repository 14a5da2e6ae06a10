// The presets of engram probe: for each a function that sets what differs from kFull, with where its numbers are from.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/text/text.h"
#include "experiments/probe/options.h"

namespace engram {
namespace {

// More than any gradient: it is not clipped.
constexpr double kNoClipping = 1e9;

// PyTorch's AdamW as it is used without groups of parameters and without clipping.
void set_plain_adamw(ProbeTraining& training, double weight_decay) {
  training.weight_decay = weight_decay;
  training.decayed = Decayed::kAll;
  training.clip_gradient_norm = kNoClipping;
}

std::string joined(const std::vector<std::string>& entries) {
  std::string list;
  for (const std::string& entry : entries) list += (list.empty() ? "" : ",") + entry;
  return list;
}

void set_small(ProbeOptions& options) {
  options.tasks =
      "parity:train_length=20:test_length=64,modular:train_length=16:test_length=48,"
      "recall:pairs=4:length=24:alphabet=8,rewritten:pairs=4:length=24:alphabet=8,copy:items=4:alphabet=4:delay=16,"
      "selective_copy:items=4:alphabet=4:length=20,retrieval:keys=12";
  options.rates = "0.003";
  options.width = 32;
  options.heads = 2;
  options.window = 8;
  options.test_sequences = 128;
  options.training.steps = 600;
  options.training.validate_every = 50;
  options.training.batch = 32;
}

// Sizes that kSmall has for tasks that it runs only where they are named.
const char* const kOtherSmallTasks =
    "mad_compress:vocabulary=6:length=8:training_sequences=0,"
    "mad_fuzzy_recall:vocabulary=10:length=40:key_length=2:value_length=2:training_sequences=0,"
    "mad_recall:vocabulary=8:length=24:training_sequences=0,"
    "mad_memorize:vocabulary=32:length=16:training_sequences=0,"
    "mad_noisy_recall:vocabulary=12:noise_vocabulary=4:length=24:training_sequences=0,"
    "mad_selective_copy:vocabulary=6:length=24:items=4:training_sequences=0,"
    "regbench:languages=100000:max_states=5:alphabet=6:words=10:word_length=10";

// kazuki-irie/hybrid-memory, synthetic_algorithmic: its configurations and example script for modular arithmetic. Of
// parity the rate rises in 2,000 steps: --tasks parity --warmup 0.1.
void set_published(ProbeOptions& options) {
  const std::string weights = "weight_std=0.006:output_weights=kaiming", first = "convolution=true:" + weights,
                    hqlt = first + ":positions=none:output_gate=true";
  options.tasks = "modular";
  options.backbones =
      joined({"transformer++:" + weights, "deltanet:" + first, "hqlt_delayed_stream:" + hqlt,
              "hqlt_delayed_chunk:window=16:" + hqlt, "hqlt:" + hqlt, "hqlt:fast_weights=linear_transformer:" + hqlt});
  options.rates = "0.005,0.001,0.0005,0.0001";
  options.window = 8;
  options.test_sequences = 8192;
  options.training.steps = 20'000;
  options.training.batch = 1024;
  options.training.warmup = 0.5;
  options.training.final_rate = 0.97;  // of a cosine to a thousandth at step 100,000, which its file has
  set_plain_adamw(options.training, 0.1);
  options.training.validate_every = 100;
  options.training.network.embedding_std = 0.006;
}

// HazyResearch/zoology, the configuration of its figure 2 at 512 symbols and 64 pairs, and its model's tied embeddings;
// two heads as Yang et al. 2024 say for DeltaNet.
void set_mqar(ProbeOptions& options) {
  options.tasks =
      "recall:pairs=64:length=512:alphabet=4096:train_pairs=all:queries=power_law:training_sequences=100000";
  std::vector<std::string> backbones;
  for (const std::string name : {"deltanet", "gated_deltanet", "linear_transformer", "gla", "retnet", "mamba2",
                                 "transformer++", "hqlt", "stack:stack=[deltanet,window]"})
    for (const int width : {64, 128, 256, 512}) backbones.push_back(name + ":width=" + std::to_string(width));
  options.backbones = joined(backbones);
  options.seeds = "0";
  options.rates = "0.0001,0.000464,0.00215,0.01";
  options.heads = 2;
  options.test_sequences = 3000;
  options.epochs = 64;
  options.training.batch = 128;
  options.training.warmup = 0;
  set_plain_adamw(options.training, 0.1);
  options.training.validate_every = 782;  // a pass
  options.training.stop_accuracy = 0.99;
  options.training.network.embedding_std = 0.02;
  options.training.network.answers_by = AnswersBy::kEmbeddings;
}

// The baseline of a task and the settings that change one of its sizes at a time.
std::vector<std::string> mad_settings(const std::string& task,
                                      const std::vector<std::pair<std::string, std::vector<std::string>>>& changes) {
  std::vector<std::string> entries = {task};
  for (const auto& [key, values] : changes)
    for (const std::string& value : values) entries.push_back(task + ":" + key + "=" + value);
  return entries;
}

// athms/mad-lab: configs/tasks and mad/configs.py. Its scores are means over the settings of a task, each at the best
// rate and weight decay; of the two weight decays this is the first, --weight_decay 0.1 is the other.
void set_mad(ProbeOptions& options) {
  const std::vector<std::string> fewer = {"6400", "3200", "1600", "800"};
  std::vector<std::string> tasks;
  for (const auto& settings :
       {mad_settings(
            "mad_compress",
            {{"vocabulary", {"32", "64", "128"}}, {"length", {"64", "128", "256"}}, {"training_sequences", fewer}}),
        mad_settings(
            "mad_fuzzy_recall",
            {{"vocabulary", {"32", "64", "128"}}, {"length", {"256", "512", "1024"}}, {"training_sequences", fewer}}),
        mad_settings(
            "mad_recall",
            {{"vocabulary", {"32", "64", "128"}}, {"length", {"256", "512", "1024"}}, {"training_sequences", fewer}}),
        mad_settings("mad_memorize", {{"vocabulary", {"512", "1024", "2048", "4096", "8192"}}}),
        mad_settings("mad_noisy_recall", {{"vocabulary", {"48", "80", "144"}},
                                          {"length", {"256", "512", "1024"}},
                                          {"training_sequences", fewer},
                                          {"noise", {"0.4", "0.6", "0.8"}}}),
        mad_settings("mad_selective_copy", {{"vocabulary", {"32", "64", "128"}},
                                            {"length", {"512", "1024"}},
                                            {"training_sequences", fewer},
                                            {"items", {"32", "64", "96"}}})})
    tasks.insert(tasks.end(), settings.begin(), settings.end());
  options.tasks = joined(tasks);
  options.backbones = "transformer++,mamba2,gla,deltanet:convolution=true,hqlt";
  options.seeds = "0";
  options.rates = "0.0001,0.0005,0.001";
  options.test_sequences = 1280;
  options.epochs = 200;
  options.training.batch = 128;
  options.training.warmup = 0;
  options.training.final_rate = 0.002;  // 1e-6 at the middle rate, as published at all
  set_plain_adamw(options.training, 0);
  options.training.validate_every = 100;  // a pass of the baseline
}

// berlino/seq_icl: configs/experiment/dfa and configs/dataset/icl_dfa.yaml.
void set_regbench(ProbeOptions& options) {
  options.tasks = joined({"regbench:languages=1000", "regbench:languages=2500", "regbench:languages=5000",
                          "regbench:languages=10000", "regbench:languages=20000"});
  options.backbones = "transformer++,deltanet:convolution=true,deltanet,gla,mamba2";
  options.seeds = "0";
  options.rates = "0.0005";
  options.layers = "4";
  options.heads = 2;
  options.test_sequences = 500;
  options.epochs = 200;
  options.training.batch = 32;
  options.training.final_rate = 0.1;
  options.training.weight_decay = 0.1;
  options.training.validate_every = 1000;
}

// ischlag/fast-weight-transformers, synthetic/main.py: Adam with a constant rate, 20 sequences in validation every 100
// steps, until none of ten in a row is better.
void set_retrieval(ProbeOptions& options, const std::string& settings, int most_keys) {
  std::vector<std::string> tasks;
  for (int keys = 20; keys <= most_keys; keys += 20)
    tasks.push_back("retrieval:model=memory" + settings + ":keys=" + std::to_string(keys));
  options.tasks = joined(tasks);
  options.seeds = "0";
  options.rates = "0.001";
  options.width = 64;
  options.heads = 1;
  options.test_sequences = 20;
  options.training.steps = 100'000;
  options.training.batch = 32;
  options.training.warmup = 0;
  options.training.final_rate = 1;
  options.training.weight_decay = 0;
  options.training.clip_gradient_norm = kNoClipping;
  options.training.validate_every = 100;
  options.training.patience = 1000;
}

void set_capacity(ProbeOptions& options) {
  set_retrieval(options, "", 600);
  options.backbones =
      "transformer,linear_transformer,performer:favor_features=64,performer:favor_features=128,"
      "performer:favor_features=512,dpfp,dpfp:dpfp_nu=2,dpfp:dpfp_nu=3";
}

void set_update_rules(ProbeOptions& options) {
  set_retrieval(options, ":rewritten=true", 200);
  const std::string elu = "fast_weights:feature_map=elu:key_norm=sum:beta_factor=1";
  options.backbones = joined(
      {"transformer", "linear_transformer", elu, "dpfp", "delta_2021", "dpfp:dpfp_nu=2", "delta_2021:dpfp_nu=2"});
}

// Half an hour of two H200s: the backbones of configs/compare/memories_ppo.ini and what the published tables of
// perplexity vary in DeltaNet and HQLT. The window, the rate, what it falls to and the clipping are HQLT's (Irie et al.
// 2025, section 4.1 and table 5), the weight decay DeltaNet's (Yang et al. 2024, appendix D). Heads have at most 64
// channels, of which slstm's kernel takes no more. Without shm, whose kernel takes matrices too small for as many
// parameters. Ind_rnn's outputs are sums over all steps, which grow with each layer: six begin at 140,000 bits a byte.
void set_text(ProbeOptions& options) {
  options.tasks = "text:length=512";
  options.backbones =
      "hqlt,transformer,transformer++,deltanet,deltanet:convolution=true,"
      "stack:stack=[deltanet,window,deltanet,window,deltanet,window],gated_deltanet,delta_product,kda,"
      "fast_weights:feature_map=elu:key_norm=sum:beta_factor=1,delta_2021,delta_2021:feature_map=favor,"
      "linear_transformer,performer,dpfp,retnet,gla,mamba2,mlstm,hqlt_delayed_stream,"
      "hqlt_delayed_chunk,hqlt:mixing=sum,hqlt:fast_weights=linear_transformer,expansion_span,min_gru,lru,s5,rg_lru,"
      "slstm,gtrxl,lstm,gru,rnn,ind_rnn:layers=2,lmu:memory_width=128,ffm,frame_stack,none";
  options.seeds = "0-1";
  options.rates = "0.001";
  options.layers = "6";
  options.width = 336;
  options.match = Match::kParameters;
  options.heads = 6;
  options.window = 64;
  options.test_sequences = 512;
  options.training.steps = 1500;
  options.training.batch = 32;
  options.training.warmup = 0.05;
  options.training.final_rate = 0.1;
  options.training.validate_every = 75;
}

}  // namespace

ProbeOptions::ProbeOptions(ProbePreset preset) {
  switch (preset) {
    case ProbePreset::kFull:
      return;
    case ProbePreset::kSmall:
      set_small(*this);
      break;
    case ProbePreset::kPublished:
      set_published(*this);
      break;
    case ProbePreset::kMqar:
      set_mqar(*this);
      break;
    case ProbePreset::kMad:
      set_mad(*this);
      break;
    case ProbePreset::kRegBench:
      set_regbench(*this);
      break;
    case ProbePreset::kCapacity:
      set_capacity(*this);
      break;
    case ProbePreset::kUpdateRules:
      set_update_rules(*this);
      break;
    case ProbePreset::kText:
      set_text(*this);
      break;
  }
}

void list_preset(OptionList& list, ProbePreset& preset) {
  list.add("preset", preset,
           {{ProbePreset::kFull, "full"},
            {ProbePreset::kSmall, "small"},
            {ProbePreset::kPublished, "published"},
            {ProbePreset::kMqar, "mqar"},
            {ProbePreset::kMad, "mad"},
            {ProbePreset::kRegBench, "regbench"},
            {ProbePreset::kCapacity, "capacity"},
            {ProbePreset::kUpdateRules, "update_rules"},
            {ProbePreset::kText, "text"}},
           "defaults of all that follows, and sizes of the tasks: the published ones, for a GPU; for minutes on a CPU; "
           "a published figure with the training that it had: modular arithmetic of HQLT's paper, MQAR, MAD and "
           "RegBench of DeltaNet's, retrieval over numbers of keys of the first delta rule's, each key written once or "
           "several times; or a text that --text names, for all memories of 10 million parameters");
}

std::string with_preset_sizes(const std::string& tasks, ProbePreset preset) {
  std::vector<std::string> sizes = probe_entries(ProbeOptions(preset).tasks, "tasks");
  if (preset == ProbePreset::kSmall)
    for (const std::string& entry : probe_entries(kOtherSmallTasks, "tasks")) sizes.push_back(entry);
  std::string result;
  for (const std::string& entry : probe_entries(tasks, "tasks")) {
    const NamedSettings given = parse_named_settings(entry);
    result += (result.empty() ? "" : ",") + entry;
    // Where the preset has several settings of a task the first one is its sizes.
    const auto usual = std::ranges::find_if(
        sizes, [&](const std::string& sized) { return parse_named_settings(sized).name == given.name; });
    if (usual == sizes.end()) continue;
    for (const auto& [key, value] : parse_named_settings(*usual).settings)
      if (std::ranges::count(given.settings, key, &std::pair<std::string, std::string>::first) == 0)
        result += ":" + key + "=" + value;
  }
  return result;
}

}  // namespace engram
