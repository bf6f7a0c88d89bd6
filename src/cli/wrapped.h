// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace topknot::cli {

/// Words in lines of at most `width`, those after the first behind `indent` spaces, where the first
/// is taken to begin, too.
std::string wrapped(const std::vector<std::string>& words, std::size_t width,
                    std::size_t indent, std::string_view between = " ");
/// The same, of the words of `text`.
std::string wrapped(const std::string& text, std::size_t width, std::size_t indent);

}  // namespace topknot::cli
