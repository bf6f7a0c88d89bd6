// SPDX-License-Identifier: Apache-2.0
#include "cli/wrapped.h"

#include <sstream>

namespace topknot::cli {

std::string wrapped(const std::vector<std::string>& words, std::size_t width,
                    std::size_t indent, std::string_view between) {
  std::string text;
  std::size_t column = indent;
  for (const std::string& word : words) {
    if (column > indent && column + between.size() + word.size() > width) {
      text += "\n" + std::string(indent, ' ');
      column = indent;
    }
    if (column > indent) {
      text += between;
      column += between.size();
    }
    text += word;
    column += word.size();
  }
  return text;
}

std::string wrapped(const std::string& text, std::size_t width, std::size_t indent) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return wrapped(words, width, indent);
}

}  // namespace topknot::cli
