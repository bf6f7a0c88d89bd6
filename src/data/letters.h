// SPDX-License-Identifier: Apache-2.0
//
// Unicode, as far as BERT's uncased tokenizer wants it. Lower case and accents are known for
// Latin, Greek, Cyrillic, Armenian, Hebrew, Arabic and Japanese letters; others stay as
// they are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace topknot::data {

/// Takes the first letter off UTF-8 text, which is not empty; nothing, and `text` as it was,
/// when that is not UTF-8.
std::optional<char32_t> next_letter(std::string_view& text);
void append_letter(std::string& text, char32_t letter);

/// The letter in lower case and without its accent; 0 for an accent alone.
char32_t fold(char32_t letter);

bool is_punctuation(char32_t letter);
bool is_space(char32_t letter);
/// Control characters and marks that leave no trace.
bool is_unseen(char32_t letter);
/// Chinese characters, each of which is a word.
bool is_ideograph(char32_t letter);

}  // namespace topknot::data
