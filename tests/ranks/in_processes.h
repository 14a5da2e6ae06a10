// Ranks as programs of their own, as they are on GPUs.
#pragma once

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "ranks/ranks.h"
#include "tests/ranks/in_threads.h"
#include "tests/storage/temporary_folder.h"

namespace engram {

// Starts this test program once for every one of `size` ranks to run the test case of that name, which comes here again
// and does `work` as that rank; waits for all and returns what `work` returned in each, or nothing for a rank that
// ended otherwise. A case does the same work in all its calls.
inline std::vector<std::optional<std::string>> in_processes(
    int size, const std::string& test_case, const std::function<std::string(const std::shared_ptr<Ranks>&)>& work) {
  constexpr const char* kResult = "ENGRAM_TEST_RESULT";
  if (const char* const file = std::getenv(kResult)) {
    const std::string result =
        work(std::make_shared<Ranks>(launch_of([](const char* name) { return std::getenv(name); })));
    write_text(file, result);
    std::_Exit(0);
  }

  const TemporaryFolder folder;
  const std::string filter = "--test-case=" + test_case;
  const std::string port = std::to_string(free_port());
  std::vector<pid_t> programs;
  std::vector<std::string> files;
  for (int rank = 0; rank < size; ++rank) {
    files.push_back((folder.path() / std::to_string(rank)).string());
    std::vector<std::string> variables = {"WORLD_SIZE=" + std::to_string(size), "RANK=" + std::to_string(rank),
                                          "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + port,
                                          std::string(kResult) + "=" + files.back()};
    std::vector<char*> environment;
    for (std::string& variable : variables) environment.push_back(variable.data());
    for (char** inherited = environ; *inherited != nullptr; ++inherited) environment.push_back(*inherited);
    environment.push_back(nullptr);
    std::string program = "/proc/self/exe", argument = filter;
    char* arguments[] = {program.data(), argument.data(), nullptr};
    pid_t started = 0;
    if (::posix_spawn(&started, program.c_str(), nullptr, nullptr, arguments, environment.data()) != 0)
      throw std::runtime_error("the test program cannot start itself");
    programs.push_back(started);
  }
  std::vector<std::optional<std::string>> results;
  for (int rank = 0; rank < size; ++rank) {
    int status = 0;
    ::waitpid(programs[static_cast<std::size_t>(rank)], &status, 0);
    results.push_back(status == 0 ? std::optional(read_text(files[static_cast<std::size_t>(rank)])) : std::nullopt);
  }
  return results;
}

}  // namespace engram
