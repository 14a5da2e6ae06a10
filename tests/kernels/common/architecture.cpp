#include "kernels/common/architecture.h"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <utility>

using namespace engram;

TEST_CASE("a list of architectures has code for the GPUs that CUDA says it has") {
  CHECK(has_code_for("90a", 9, 0));
  CHECK_FALSE(has_code_for("90a", 8, 9));
  CHECK_FALSE(has_code_for("90a", 10, 0));  // code and PTX of 90a are for 9.0 alone
  CHECK(has_code_for("86", 8, 6));
  CHECK(has_code_for("86", 8, 9));
  CHECK(has_code_for("86", 12, 0));  // by its PTX
  CHECK_FALSE(has_code_for("86", 8, 0));
  CHECK(has_code_for("86-real", 8, 9));
  CHECK_FALSE(has_code_for("86-real", 9, 0));
  CHECK(has_code_for("86-virtual", 9, 0));
  CHECK_FALSE(has_code_for("86-virtual", 8, 0));
  CHECK(has_code_for("100f", 10, 3));
  CHECK_FALSE(has_code_for("100f", 11, 0));
  CHECK(has_code_for("120", 12, 1));
  CHECK_FALSE(has_code_for("120", 9, 0));
  const std::string release = "80-real, 86-real, 89-real, 90a, 120";
  for (const auto& [major, minor] : {std::pair{8, 0}, {8, 6}, {8, 9}, {9, 0}, {12, 0}, {12, 1}, {13, 0}})
    CHECK(has_code_for(release, major, minor));
  for (const auto& [major, minor] : {std::pair{7, 5}, {10, 0}}) CHECK_FALSE(has_code_for(release, major, minor));
  CHECK_THROWS_AS(has_code_for("native", 9, 0), std::invalid_argument);
  CHECK_THROWS_AS(has_code_for("", 9, 0), std::invalid_argument);
}

TEST_CASE("this build names its architectures in that form") {
  CHECK_NOTHROW(has_code_for(built_architectures(), 9, 0));
}

TEST_CASE("a GPU without code gets one line that names it, the build and what to do") {
  CHECK(no_code_message("NVIDIA L4", 8, 9, "90a") ==
        "the GPU (NVIDIA L4, compute capability 8.9) cannot run this program, whose kernels were built for 90a; "
        "configure with -DCMAKE_CUDA_ARCHITECTURES=89 and build again, or use --device cpu");
  CHECK(no_code_message("NVIDIA H100", 9, 0, "80-real").find("-DCMAKE_CUDA_ARCHITECTURES=90a ") != std::string::npos);
  CHECK(no_code_message("Tesla V100", 7, 0, "90a") ==
        "the GPU (Tesla V100, compute capability 7.0) cannot run this program: its kernels need compute capability "
        "8.0 or later; use --device cpu");
}
