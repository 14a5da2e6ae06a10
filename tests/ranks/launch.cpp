#include "ranks/launch.h"

#include <doctest/doctest.h>

#include <map>
#include <string>

#include "base/error.h"

using namespace engram;

namespace {

using Variables = std::map<std::string, std::string>;

Launch launch(const Variables& variables) {
  return launch_of([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

Variables with(Variables variables, const std::string& name, const std::string& value) {
  variables[name] = value;
  return variables;
}

const Variables kTorchrun = {{"WORLD_SIZE", "4"},
                             {"RANK", "3"},
                             {"MASTER_ADDR", "node7"},
                             {"MASTER_PORT", "29500"},
                             {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                             {"TORCHELASTIC_RESTART_COUNT", "2"}};
const Variables kSlurm = {{"SLURM_STEP_NUM_TASKS", "3"},
                          {"SLURM_PROCID", "1"},
                          {"SLURM_STEP_NODELIST", "gpu[03-04,9]"},
                          {"SLURM_JOB_ID", "77"},
                          {"SLURM_STEP_ID", "0"}};

}  // namespace

TEST_CASE("a program that nobody starts with others is alone") {
  CHECK(launch({}).alone());
  CHECK(launch({{"RANK", "1"}}).alone());
  CHECK(launch({{"WORLD_SIZE", "1"}}).alone());
  // A batch script of Slurm, and a step of one task.
  CHECK(launch({{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}, {"SLURM_JOB_ID", "5"}}).alone());
  CHECK(launch(with(kSlurm, "SLURM_STEP_NUM_TASKS", "1")).alone());
}

TEST_CASE("torchrun's variables") {
  const Launch of_torchrun = launch(kTorchrun);
  CHECK(of_torchrun.rank == 3);
  CHECK(of_torchrun.size == 4);
  CHECK(of_torchrun.address == "node7");
  CHECK(of_torchrun.port == 29500);
  CHECK(of_torchrun.store_is_launchers);
  CHECK(of_torchrun.attempt == "2");
  CHECK_FALSE(launch(with(kTorchrun, "TORCHELASTIC_USE_AGENT_STORE", "False")).store_is_launchers);
}

TEST_CASE("srun's variables") {
  const Launch of_srun = launch(kSlurm);
  CHECK(of_srun.rank == 1);
  CHECK(of_srun.size == 3);
  CHECK(of_srun.address == "gpu03");
  CHECK_FALSE(of_srun.store_is_launchers);
  CHECK(of_srun.port >= 20'000);
  CHECK(launch(with(kSlurm, "SLURM_PROCID", "2")).port == of_srun.port);
  CHECK(launch(with(kSlurm, "SLURM_STEP_ID", "1")).port != of_srun.port);
  CHECK(launch(with(kSlurm, "SLURM_JOB_ID", "78")).port != of_srun.port);

  CHECK(launch(with(kSlurm, "SLURM_STEP_NODELIST", "login,gpu[1-2]")).address == "login");
  CHECK(launch(with(kSlurm, "SLURM_STEP_NODELIST", "gpu5")).address == "gpu5");
  CHECK(launch(with(kSlurm, "SLURM_STEP_NODELIST", "gpu[12]")).address == "gpu12");
  CHECK(launch(with(kSlurm, "MASTER_ADDR", "10.0.0.1")).address == "10.0.0.1");
  CHECK(launch(with(kSlurm, "MASTER_PORT", "1234")).port == 1234);
  CHECK(launch(with(kSlurm, "WORLD_SIZE", "1")).alone());  // whoever sets it means it
}

TEST_CASE("wrong variables are named with their values") {
  const auto message = [](const Variables& variables) -> std::string {
    try {
      launch(variables);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  CHECK(message(with(kTorchrun, "WORLD_SIZE", "four")) ==
        "the environment's WORLD_SIZE 'four' is not a number from 1 to 1048576");
  CHECK(message(with(kTorchrun, "RANK", "4")) == "the environment's RANK '4' is not a number from 0 to 3");
  CHECK(message(with(kTorchrun, "MASTER_PORT", "0")) ==
        "the environment's MASTER_PORT '0' is not a number from 1 to 65535");
  CHECK(message({{"WORLD_SIZE", "2"}, {"RANK", "0"}, {"MASTER_PORT", "1"}}) ==
        "the environment has no MASTER_ADDR, the machine of rank 0, where ranks meet");
  CHECK(message({{"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}}) ==
        "the environment has no RANK, which a run of several ranks needs");
  CHECK(message({{"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_NODELIST", "a"}}) ==
        "the environment has no SLURM_JOB_ID, which a run of several ranks needs");
}
