// SPDX-License-Identifier: Apache-2.0
#include "store/container_header.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "topknot/error.h"

namespace topknot::store {
namespace {

using nlohmann::json;

/// Gets the tokens of the header from the parser and rejects the header at the first token that is
/// not allowed where it stands. `where_` is the place:
///
///     {  "__metadata__" : {  "key" : "text"  },
///     top                 metadata
///        "name" : {  "dtype" : "F32",  "shape" : [ 2 ],  "data_offsets" : [ 0, 8 ]  }  }
///     top         entry     dtype         shape   extents   offsets          limits
class HeaderWords final : public nlohmann::json_sax<json> {
 public:
  explicit HeaderWords(Header& header) : header_(header) {}

  bool start_object(std::size_t) override {
    if (where_ == Where::outside) return go(Where::top);
    if (where_ == Where::metadata_value) return go(Where::metadata);
    if (where_ == Where::entry_value) return go(Where::entry);
    return no("an object out of place");
  }

  bool key(string_t& name) override {
    switch (where_) {
      case Where::top:
        return top_key(name);
      case Where::metadata:
        key_ = name;
        return go(Where::metadata_text);
      case Where::entry:
        return entry_key(name);
      default:
        return no("a key out of place");
    }
  }

  bool end_object() override {
    if (where_ == Where::top) return go(Where::done);
    if (where_ == Where::metadata) return go(Where::top);
    return end_entry();
  }

  bool string(string_t& text) override {
    if (where_ == Where::metadata_text) {
      if (header_.metadata.size() == kMostMetadata) return no("too much metadata");
      if (!header_.metadata.emplace(key_, text).second) return no("a key twice");
      return go(Where::metadata);
    }
    if (where_ != Where::dtype) return no("a text out of place");
    for (const Dtype dtype :
         {Dtype::f64, Dtype::f32, Dtype::i64, Dtype::u64, Dtype::bf16, Dtype::u8}) {
      if (name_of(dtype) != text) continue;
      entry_.dtype = dtype;
      return go(Where::entry);
    }
    return no("an element type that is none of F64, F32, I64, U64, BF16 and U8");
  }

  bool start_array(std::size_t) override {
    if (where_ == Where::shape) return go(Where::extents);
    if (where_ == Where::offsets) return go(Where::limits);
    return no("a list out of place");
  }

  bool number_unsigned(number_unsigned_t x) override {
    if (where_ == Where::extents) {
      if (entry_.shape.size() == kMostExtents) return no("a shape too long");
      entry_.shape.push_back(x);
      return true;
    }
    if (where_ != Where::limits || limits_ == 2) return no("a number out of place");
    (limits_++ == 0 ? entry_.begin : entry_.end) = x;
    return true;
  }

  bool end_array() override {
    if (where_ == Where::limits && limits_ != 2) return no("offsets that are not two");
    return go(Where::entry);
  }

  bool null() override { return no("a null"); }
  bool boolean(bool) override { return no("a truth value"); }
  bool number_integer(number_integer_t) override { return no("a negative number"); }
  bool number_float(number_float_t, const string_t&) override {
    return no("a number that is not whole");
  }
  bool binary(binary_t&) override { return no("bytes"); }
  bool parse_error(std::size_t, const std::string&, const json::exception&) override {
    return no("what is not JSON");
  }

  const std::string& fault() const noexcept { return fault_; }

 private:
  enum class Where {
    outside,
    top,
    metadata_value,
    metadata,
    metadata_text,
    entry_value,
    entry,
    dtype,
    shape,
    extents,
    offsets,
    limits,
    done,
  };
  static constexpr std::size_t kMostExtents = 16;

  bool go(Where where) {
    where_ = where;
    return true;
  }
  bool no(const char* fault) {
    if (fault_.empty()) fault_ = fault;
    return false;
  }

  bool top_key(const std::string& name) {
    if (name == kMetadataKey) {
      if (std::exchange(seen_metadata_, true)) return no("its metadata twice");
      return go(Where::metadata_value);
    }
    if (header_.entries.contains(name)) return no("a name twice");
    key_ = name;
    entry_ = {};
    limits_ = 0;
    seen_ = 0;
    return go(Where::entry_value);
  }

  bool entry_key(const std::string& name) {
    if (name == "dtype") return once(1, Where::dtype);
    if (name == "shape") return once(2, Where::shape);
    if (name == "data_offsets") return once(4, Where::offsets);
    return no("an entry with something else than dtype, shape and data_offsets");
  }
  bool once(unsigned bit, Where where) {
    if ((seen_ & bit) != 0) return no("a key twice");
    seen_ |= bit;
    return go(where);
  }

  bool end_entry() {
    if (seen_ != 7) return no("an entry without its dtype, shape or data_offsets");
    if (entry_.begin > entry_.end ||
        bytes_of(entry_.dtype, entry_.shape) != entry_.end - entry_.begin)
      return no("an entry whose shape does not have as many elements as it has bytes");
    entry_.shape.shrink_to_fit();
    header_.entries.emplace(key_, std::move(entry_));
    return go(Where::top);
  }

  Header& header_;
  Where where_ = Where::outside;
  std::string key_;
  HeaderEntry entry_;
  int limits_ = 0;
  unsigned seen_ = 0;
  bool seen_metadata_ = false;
  std::string fault_;
};

}  // namespace

Header read_header(std::span<const std::byte> text, const std::string& what) {
  Header header;
  HeaderWords words(header);
  const auto* begin = reinterpret_cast<const char*>(text.data());
  // The parser would skip a byte order mark.
  const bool good = !text.empty() && *begin == '{' &&
                    json::sax_parse(begin, begin + text.size(), &words);
  if (!good)
    throw DataError("The header of " + what +
                    " is not that of a container of arrays: it has " +
                    (words.fault().empty() ? "no object" : words.fault()) + ".");
  return header;
}

void require_cover(const std::map<std::string, HeaderEntry, std::less<>>& entries,
                   std::uint64_t bytes, const std::string& what) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  ranges.reserve(entries.size());
  for (const auto& [name, entry] : entries) ranges.emplace_back(entry.begin, entry.end);
  std::sort(ranges.begin(), ranges.end());
  std::uint64_t end = 0;
  for (const auto& [first, last] : ranges) {
    if (first != end)
      throw DataError(what + " has arrays that overlap or leave a gap at byte " +
                      std::to_string(std::min(first, end)) + " of its data.");
    end = last;
  }
  if (end != bytes)
    throw DataError(what + " has " + std::to_string(bytes) +
                    " bytes of data where its header has " + std::to_string(end) + ".");
}

}  // namespace topknot::store
