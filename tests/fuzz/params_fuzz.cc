// SPDX-License-Identifier: Apache-2.0
//
// Any text as a name with parameters. It is refused by a sentence, or its str() is parsed to
// itself; what is then read of it is in its range, or refused by a sentence.
#include <cmath>
#include <string_view>

#include "fuzz/input.h"
#include "topknot/error.h"
#include "topknot/params.h"

namespace {

using namespace topknot;
using topknot::fuzz::require;

void read_all(Params params) {
  const std::int64_t whole = params.integer("tau", 64, 1, 4096, "");
  require(whole >= 1 && whole <= 4096);
  const double number = params.number("decay", 0.5, 0, 1, "");
  require(std::isfinite(number) && number >= 0 && number <= 1);
  params.flag("exact", true, "");
  const std::string choice = params.choice("values", {"f32", "bf16"}, "");
  require(choice == "f32" || choice == "bf16");
  params.text("name", "", "");
  params.refuse_unknown("this");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Spec spec;
  try {
    spec = Spec::parse(text);
  } catch (const ConfigError& error) {
    require(*error.what() != '\0');
    return 0;
  }
  const std::string said = spec.str();
  require(Spec::parse(said).str() == said);
  try {
    read_all(spec.params);
  } catch (const ConfigError& error) {
    require(*error.what() != '\0');
  }
  return 0;
}
