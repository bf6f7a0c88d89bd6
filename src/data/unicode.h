// SPDX-License-Identifier: Apache-2.0
//
// Unicode, as far as BERT's uncased tokenizer needs it: utf8proc under the names of its steps.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace topknot::data {

/// Takes the first code point off UTF-8 text, which is not empty. Returns nothing, and leaves
/// `text` as it was, where the text does not begin with valid UTF-8.
std::optional<char32_t> next_code_point(std::string_view& text);
void append_code_point(std::string& text, char32_t code_point);

/// The code point in lower case, decomposed canonically (NFD), without nonspacing marks. Empty
/// for a mark alone; two or three code points for a Korean syllable.
std::u32string fold(char32_t code_point);

/// Categories P*, and all of ASCII that is neither letter, digit, space nor control character.
bool is_punctuation(char32_t code_point);
/// Category Zs, tab and the ends of lines.
bool is_space(char32_t code_point);
/// What the tokenizer drops: categories Cc and Cf, and U+FFFD.
bool is_control(char32_t code_point);
/// Chinese characters, each of which is a word.
bool is_ideograph(char32_t code_point);

}  // namespace topknot::data
