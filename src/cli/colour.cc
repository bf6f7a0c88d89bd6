// SPDX-License-Identifier: Apache-2.0
#include "cli/colour.h"

#include <unistd.h>

#include <cstdlib>

namespace topknot::cli {
namespace {

bool shows_colours(std::FILE* to) {
  const char* const refused = std::getenv("NO_COLOR");
  if (refused != nullptr && *refused != '\0') return false;
  const char* const terminal = std::getenv("TERM");
  if (terminal == nullptr || std::string_view(terminal) == "dumb") return false;
  return isatty(fileno(to)) != 0;
}

const char* code(Colour colour) {
  switch (colour) {
    case Colour::bold:
      return "\033[1m";
    case Colour::red:
      return "\033[1;31m";
    case Colour::yellow:
      return "\033[33m";
    case Colour::green:
      return "\033[32m";
  }
  return "";
}

}  // namespace

std::string coloured(Colour colour, std::string_view text, std::FILE* to) {
  if (!shows_colours(to)) return std::string(text);
  return code(colour) + std::string(text) + "\033[0m";
}

}  // namespace topknot::cli
