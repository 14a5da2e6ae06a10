// The commands of the program: the list of them, and the functions behind it.
//
// run_...() takes what stands behind the command's name on the command line and returns the exit status; bad input
// throws UserError. describe_...() shows what the command takes, from the same lists that it parses with.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "apps/cli/command_line.h"

namespace engram {

// Is shown the options and the syntax behind `words`: "train", "compare report". The list lives for the call alone.
using CommandVisitor =
    std::function<void(const std::string& words, const OptionList& options, const CommandSyntax& syntax)>;

struct Command {
  const char* name;
  const char* summary;
  int (*run)(const std::vector<std::string>& arguments);
  void (*describe)(const CommandVisitor& visit);  // once for the command itself, and for each command below it
};

const std::vector<Command>& commands();

int run_train(const std::vector<std::string>& arguments);
int run_compare(const std::vector<std::string>& arguments);
int run_sweep(const std::vector<std::string>& arguments);
int run_evaluate(const std::vector<std::string>& arguments);
int run_diagnose(const std::vector<std::string>& arguments);
int run_render(const std::vector<std::string>& arguments);
int run_play(const std::vector<std::string>& arguments);
int run_inspect(const std::vector<std::string>& arguments);
int run_list(const std::vector<std::string>& arguments);
int run_probe(const std::vector<std::string>& arguments);
int run_replay(const std::vector<std::string>& arguments);
int run_bench(const std::vector<std::string>& arguments);
int run_completion(const std::vector<std::string>& arguments);

void describe_train(const CommandVisitor& visit);
void describe_compare(const CommandVisitor& visit);
void describe_sweep(const CommandVisitor& visit);
void describe_evaluate(const CommandVisitor& visit);
void describe_diagnose(const CommandVisitor& visit);
void describe_render(const CommandVisitor& visit);
void describe_play(const CommandVisitor& visit);
void describe_inspect(const CommandVisitor& visit);
void describe_list(const CommandVisitor& visit);
void describe_probe(const CommandVisitor& visit);
void describe_replay(const CommandVisitor& visit);
void describe_bench(const CommandVisitor& visit);
void describe_completion(const CommandVisitor& visit);

// Shows an options struct with its defaults.
template <class Options>
void describe_options(const std::string& words, const CommandSyntax& syntax, const CommandVisitor& visit) {
  Options options;
  visit(words, own_options(options), syntax);
}

}  // namespace engram
