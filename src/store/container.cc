// SPDX-License-Identifier: Apache-2.0
#include "store/container.h"

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>

#include "store/container_header.h"
#include "topknot/error.h"

namespace topknot::store {
namespace {

constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kAlignment = 8;

static_assert(std::endian::native == std::endian::little,
              "arrays are stored as they lie in memory");

std::string in_quotes(std::string_view name) { return "'" + std::string(name) + "'"; }

bool is_utf8(std::string_view text) {
  try {
    nlohmann::json(text).dump();
    return true;
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

// The arrays as they are laid out: wide elements first, then by name.
std::vector<std::pair<std::string_view, const Array*>> in_file_order(
    const std::map<std::string, Array, std::less<>>& arrays) {
  std::vector<std::pair<std::string_view, const Array*>> order;
  for (const auto& [name, array] : arrays) order.emplace_back(name, &array);
  std::ranges::stable_sort(order, [](const auto& a, const auto& b) {
    return bytes_of(a.second->dtype) > bytes_of(b.second->dtype);
  });
  return order;
}

}  // namespace

std::string_view name_of(Dtype dtype) {
  constexpr std::string_view kNames[] = {"F64", "F32", "I64", "U64", "BF16", "U8"};
  return kNames[static_cast<std::size_t>(dtype)];
}

std::uint64_t bytes_of(Dtype dtype) {
  constexpr std::uint64_t kBytes[] = {8, 4, 8, 8, 2, 1};
  return kBytes[static_cast<std::size_t>(dtype)];
}

std::optional<std::uint64_t> bytes_of(Dtype dtype, const Shape& shape) {
  std::uint64_t bytes = bytes_of(dtype);
  // A zero anywhere makes the product zero, however large the other factors are.
  if (std::ranges::find(shape, 0U) != shape.end()) return 0;
  for (const std::uint64_t extent : shape)
    if (__builtin_mul_overflow(bytes, extent, &bytes)) return std::nullopt;
  return bytes;
}

void Container::view(const std::string& name, Dtype dtype, Shape shape,
                     std::span<const std::byte> bytes) {
  if (name == kMetadataKey || !is_utf8(name))
    throw ContractError("An array cannot be called " + in_quotes(name) +
                        ": any other name in UTF-8 can.");
  if (bytes_of(dtype, shape) != bytes.size())
    throw ContractError("The array " + in_quotes(name) + " has " +
                        std::to_string(bytes.size()) +
                        " bytes, which is not what its shape and type need.");
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % bytes_of(dtype) != 0)
    throw ContractError("The array " + in_quotes(name) +
                        " is not aligned to its elements.");
  if (!arrays_.emplace(name, Array{dtype, std::move(shape), bytes, true}).second)
    throw ContractError("There are two arrays called " + in_quotes(name) + ".");
}

void Container::take_over(const std::string& name, std::shared_ptr<const void> memory) {
  arrays_.at(name).borrowed = false;
  kept_.push_back(std::move(memory));
}

void Container::keep_views() {
  for (auto& [name, array] : arrays_) {
    if (!array.borrowed) continue;
    auto copy = std::make_shared<const std::vector<std::byte>>(array.bytes.begin(),
                                                               array.bytes.end());
    array.bytes = *copy;
    take_over(name, std::move(copy));
  }
}

std::uint64_t Container::bytes() const noexcept {
  std::uint64_t sum = 0;
  for (const auto& [name, array] : arrays_) sum += array.bytes.size();
  return sum;
}

const Array& Container::at(std::string_view name) const {
  const auto found = arrays_.find(name);
  if (found == arrays_.end())
    throw DataError("The checkpoint has nothing called " + in_quotes(name) + ".");
  return found->second;
}

const Array& Container::typed(std::string_view name, Dtype dtype) const {
  const Array& array = at(name);
  if (array.dtype != dtype)
    throw DataError("The checkpoint has " + std::string(name_of(array.dtype)) + " at " +
                    in_quotes(name) + " where " + std::string(name_of(dtype)) +
                    " is expected.");
  return array;
}

std::string_view Container::one(std::string_view name) const {
  const Array& array = at(name);
  if (array.bytes.size() != bytes_of(array.dtype))
    throw DataError("The checkpoint has " +
                    std::to_string(array.bytes.size() / bytes_of(array.dtype)) +
                    " elements at " + in_quotes(name) + " where one is expected.");
  return name;
}

std::vector<std::span<const std::byte>> Container::pieces(std::string& header) const {
  const auto order = in_file_order(arrays_);
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (metadata.size() > kMostMetadata)
    throw ContractError("A container may have " + std::to_string(kMostMetadata) +
                        " keys of metadata, not " + std::to_string(metadata.size()) +
                        ".");
  if (!metadata.empty()) json[kMetadataKey] = metadata;
  std::uint64_t end = 0;
  for (const auto& [name, array] : order) {
    const std::uint64_t begin = end;
    end += array->bytes.size();
    json[std::string(name)] = {{"dtype", name_of(array->dtype)},
                               {"shape", array->shape},
                               {"data_offsets", {begin, end}}};
  }
  std::string text;
  try {
    text = json.dump();
  } catch (const nlohmann::json::exception&) {
    throw ContractError("The metadata of a checkpoint must be UTF-8.");
  }
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  if (text.size() > longest_header(kLengthBytes + text.size() + end))
    throw ContractError("A header of " + std::to_string(text.size()) +
                        " bytes is too long for " + std::to_string(end) +
                        " bytes of arrays.");
  header.clear();
  for (std::size_t i = 0; i < kLengthBytes; ++i)
    header.push_back(static_cast<char>(text.size() >> (8 * i)));
  header += text;
  std::vector<std::span<const std::byte>> pieces{std::as_bytes(std::span(header))};
  for (const auto& [name, array] : order)
    if (!array->bytes.empty()) pieces.push_back(array->bytes);
  return pieces;
}

Container Container::parse(std::vector<std::byte> file, const std::string& what) {
  if (file.size() < kLengthBytes)
    throw DataError(what + " has " + std::to_string(file.size()) +
                    " bytes, too few for a container of arrays.");
  std::uint64_t length = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;)
    length = length << 8 | std::to_integer<std::uint64_t>(file[i]);
  if (length > file.size() - kLengthBytes || length > longest_header(file.size()))
    throw DataError(what + " says that its header has " + std::to_string(length) +
                    " bytes, which is too long for a file of " +
                    std::to_string(file.size()) + ".");
  auto kept = std::make_shared<const std::vector<std::byte>>(std::move(file));
  const std::span<const std::byte> bytes(*kept);
  const auto data = bytes.subspan(kLengthBytes + length);
  Container container;
  Header header = read_header(bytes.subspan(kLengthBytes, length), what);
  container.metadata = std::move(header.metadata);
  require_cover(header.entries, data.size(), what);
  for (auto& [name, entry] : header.entries) {
    const auto piece = data.subspan(entry.begin, entry.end - entry.begin);
    if ((kLengthBytes + length + entry.begin) % bytes_of(entry.dtype) != 0)
      throw DataError(what + " has " + in_quotes(name) + " where it is not aligned.");
    container.arrays_.emplace_hint(
        container.arrays_.end(), name,
        Array{entry.dtype, std::move(entry.shape), piece, false});
  }
  container.kept_.push_back(std::move(kept));
  return container;
}

}  // namespace topknot::store
