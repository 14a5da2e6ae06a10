// engram replay FILE: recorded episodes against the rules.
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "apps/cli/commands.h"
#include "base/error.h"
#include "base/text/words.h"
#include "envs/recorded/episode_file.h"

namespace engram {
namespace {

void print_replay_help() {
  std::cout << help_head(
                   {"Usage: engram replay FILE"},
                   {"Plays recorded episodes against the rules of the environments. FILE holds one JSON object a line "
                    "(the format is described in tests/golden/README.md; engram play --record writes such lines): the "
                    "layout of an episode, or what it is drawn from, its actions, and what the environment returned. "
                    "Every observation is compared byte for byte, as are rewards, positions, the end and success.",
                    "Prints the first difference in detail; the last line is 'N episodes, M mismatches'. Exit status: "
                    "0 if M is 0, 1 if not, 2 if FILE cannot be read or is malformed."})
            << "Options:\n";
  print_option(std::cout, "help", "this text");
  std::cout << "\nExample:\n  engram replay tests/golden/episodes.jsonl\n";
}

}  // namespace

void describe_replay(const CommandVisitor& visit) { visit("replay", OptionList(""), {.positional = {"FILE"}}); }

int run_replay(const std::vector<std::string>& arguments) {
  std::string path;
  for (const std::string& argument : arguments) {
    if (argument == "--help" || argument == "-h") {
      print_replay_help();
      return 0;
    }
    if (argument.size() > 1 && argument.starts_with("-"))
      throw UserError("unknown option '" + argument + "'; engram replay takes FILE or --help");
    if (!path.empty()) throw UserError("a second file '" + argument + "'; engram replay takes one");
    path = argument;
  }
  if (path.empty()) throw UserError("no file; the usage is: engram replay FILE");

  const EpisodeFileReport report = replay_episode_file(path);
  if (report.mismatches > 0) std::printf("%s\n", report.first_mismatch.c_str());
  std::printf("%s, %s\n", counted(report.episodes, "episode").c_str(),
              counted(report.mismatches, "mismatch", "mismatches").c_str());
  return report.mismatches == 0 ? 0 : 1;
}

}  // namespace engram
