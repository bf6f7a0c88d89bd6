// SPDX-License-Identifier: Apache-2.0
#include "data/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>

namespace topknot::data {
namespace {

utf8proc_category_t category(char32_t code_point) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
}

}  // namespace

std::optional<char32_t> next_code_point(std::string_view& text) {
  utf8proc_int32_t code_point = 0;
  const utf8proc_ssize_t length =
      utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                       static_cast<utf8proc_ssize_t>(text.size()), &code_point);
  if (length <= 0) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(length));
  return static_cast<char32_t>(code_point);
}

void append_code_point(std::string& text, char32_t code_point) {
  utf8proc_uint8_t bytes[4];
  const utf8proc_ssize_t length =
      utf8proc_encode_char(static_cast<utf8proc_int32_t>(code_point), bytes);
  text.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(length));
}

std::u32string fold(char32_t code_point) {
  const utf8proc_int32_t lower =
      utf8proc_tolower(static_cast<utf8proc_int32_t>(code_point));
  utf8proc_int32_t parts[8];  // the longest canonical decomposition has four
  const utf8proc_ssize_t count = utf8proc_decompose_char(lower, parts, std::size(parts),
                                                         UTF8PROC_DECOMPOSE, nullptr);
  std::u32string folded;
  for (utf8proc_ssize_t i = 0; i < count; ++i)
    if (utf8proc_category(parts[i]) != UTF8PROC_CATEGORY_MN)
      folded += static_cast<char32_t>(parts[i]);
  return folded;
}

bool is_punctuation(char32_t code_point) {
  if (code_point < 0x80)
    return (code_point > 0x20 && code_point < '0') ||
           (code_point > '9' && code_point < 'A') ||
           (code_point > 'Z' && code_point < 'a') ||
           (code_point > 'z' && code_point < 0x7F);
  const utf8proc_category_t of = category(code_point);
  return of >= UTF8PROC_CATEGORY_PC && of <= UTF8PROC_CATEGORY_PO;
}

bool is_space(char32_t code_point) {
  return code_point == '\t' || code_point == '\n' || code_point == '\r' ||
         category(code_point) == UTF8PROC_CATEGORY_ZS;
}

bool is_control(char32_t code_point) {
  const utf8proc_category_t of = category(code_point);
  return code_point == 0xFFFD || of == UTF8PROC_CATEGORY_CC || of == UTF8PROC_CATEGORY_CF;
}

bool is_ideograph(char32_t code_point) {
  constexpr struct {
    char32_t first, last;
  } kBlocks[] = {{0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF},
                 {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B820, 0x2CEAF},
                 {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
  return std::any_of(std::begin(kBlocks), std::end(kBlocks),
                     [code_point](const auto& block) {
                       return code_point >= block.first && code_point <= block.last;
                     });
}

}  // namespace topknot::data
