// SPDX-License-Identifier: Apache-2.0
//
// The properties of code points that BERT's uncased tokenizer uses, by utf8proc.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace topknot::data {

/// Removes the first code point from UTF-8 text, which is not empty, and returns it. Returns
/// nothing, and leaves `text` as it was, where that does not begin with valid UTF-8.
std::optional<char32_t> next_code_point(std::string_view& text);
void append_code_point(std::string& text, char32_t code_point);

/// The code point in lower case, decomposed canonically (NFD), without nonspacing marks. Empty
/// for a mark alone; two or three code points for a Korean syllable.
std::u32string fold(char32_t code_point);

/// Categories P*, and all of ASCII that is neither letter, digit, space nor control character.
bool is_punctuation(char32_t code_point);
/// Category Zs, tab and the ends of lines.
bool is_space(char32_t code_point);
/// Categories Cc and Cf, and U+FFFD. The tokenizer drops these.
bool is_control(char32_t code_point);
/// Chinese characters, each of which is a word.
bool is_ideograph(char32_t code_point);

}  // namespace topknot::data
