#include "base/text/whole_number.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>

using namespace engram;

TEST_CASE("whole numbers in every form become plain digits, exactly") {
  for (const auto& [text, digits] : {std::pair<std::string, std::string>{"7", "7"},
                                     {"-7", "-7"},
                                     {"1e6", "1000000"},
                                     {"1E+6", "1000000"},
                                     {"2M", "2000000"},
                                     {"10k", "10000"},
                                     {"1.5M", "1500000"},
                                     {"1.250k", "1250"},
                                     {"2.50e1", "25"},
                                     {"3G", "3000000000"},
                                     {"-2k", "-2000"},
                                     {"4.0", "4"},
                                     {"0e3", "0000"},
                                     {"9007199254740993", "9007199254740993"},  // no double has this value
                                     {"9007199254740.993k", "9007199254740993"},
                                     {"18446744073709551615", "18446744073709551615"},
                                     {"123456789012345678901234567890", "123456789012345678901234567890"}}) {
    CAPTURE(text);
    CHECK(whole_number_digits(text) == digits);
  }
}

TEST_CASE("what is no whole number is refused") {
  for (const char* text : {"",    "-",   "1.5",   "1e-1",   "10e-1", "1.25e1", "0.5k0", "1.2345k", "k",   "M",
                           "1e",  "1e+", "1e+-",  "1e1234", "1.",    ".5M",    " 1",    "1 ",      "+1",  "1kk",
                           "1k6", "2m",  "1_000", "1,000",  "nan",   "inf",    "0x10",  "1e6.0",   "--1", "1e 6"}) {
    CAPTURE(text);
    CHECK(!whole_number_digits(text));
  }
}
