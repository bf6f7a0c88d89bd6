// SPDX-License-Identifier: Apache-2.0
//
// Colour for a person at a terminal: none where the output goes elsewhere, where NO_COLOR is set to
// anything, or where TERM is dumb.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace topknot::cli {

enum class Colour { bold, red, yellow, green };

/// `text`, in this colour where `to` shows colours.
std::string coloured(Colour colour, std::string_view text, std::FILE* to);

}  // namespace topknot::cli
