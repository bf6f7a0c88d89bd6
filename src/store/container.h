// SPDX-License-Identifier: Apache-2.0
//
// Named arrays in one file, in the layout that safetensors made common:
//
//     8 bytes   length of the header, little-endian
//     header    JSON, padded with spaces: {"__metadata__": {"key": "text", ...},
//               "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}
//     data      the arrays one after another, nothing between them and nothing behind
//
// It contains no code. A reader checks everything: the header's length is limited, the arrays
// must cover the data exactly, and a shape must have as many elements as its bytes, counted
// without overflow.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace topknot::store {

enum class Dtype : std::uint8_t { f64, f32, i64, u64, bf16, u8 };

/// "F64", "F32", "I64", "U64", "BF16", "U8".
std::string_view name_of(Dtype dtype);
std::uint64_t bytes_of(Dtype dtype);

/// The types that C++ has; BF16 is read as bytes.
template <typename T>
concept Element =
    std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, std::int64_t> ||
    std::same_as<T, std::uint64_t> || std::same_as<T, std::uint8_t>;

template <Element T>
constexpr Dtype dtype_of() {
  if constexpr (std::same_as<T, float>) return Dtype::f32;
  if constexpr (std::same_as<T, double>) return Dtype::f64;
  if constexpr (std::same_as<T, std::int64_t>) return Dtype::i64;
  if constexpr (std::same_as<T, std::uint64_t>) return Dtype::u64;
  return Dtype::u8;
}

using Shape = std::vector<std::uint64_t>;  ///< empty for a scalar

struct Array {
  Dtype dtype = Dtype::u8;
  Shape shape;
  std::span<const std::byte> bytes;
  bool borrowed = false;  ///< whether the bytes are the caller's
};

/// Arrays by name, in memory of the caller or of the container. Copies share the memory of the
/// container, which is never written again.
class Container {
 public:
  /// Text by key, for readers of the file.
  std::map<std::string, std::string, std::less<>> metadata;

  /// Refers to the caller's memory, which must stay valid and unchanged as long as this container
  /// and its copies are used. Throws ContractError for a name that is taken, is not UTF-8 or is
  /// "__metadata__", for a shape with another number of elements, and for memory that is not
  /// aligned to the element.
  void view(const std::string& name, Dtype dtype, Shape shape,
            std::span<const std::byte> bytes);
  template <Element T>
  void view(const std::string& name, std::span<const T> values, Shape shape) {
    view(name, dtype_of<T>(), std::move(shape), std::as_bytes(values));
  }
  template <Element T>
  void view(const std::string& name, std::span<const T> values) {
    view(name, values, {values.size()});
  }

  /// The same, with memory that the container takes over.
  template <Element T>
  void keep(const std::string& name, std::vector<T> values, Shape shape) {
    auto kept = std::make_shared<const std::vector<T>>(std::move(values));
    view(name, std::span<const T>(*kept), std::move(shape));
    take_over(name, std::move(kept));
  }
  template <Element T>
  void keep(const std::string& name, std::vector<T> values) {
    const std::uint64_t size = values.size();
    keep(name, std::move(values), {size});
  }
  template <Element T>
  void keep(const std::string& name, T scalar) {
    keep(name, std::vector<T>{scalar}, {});
  }

  /// Copies all that is in memory of the caller, which may change from here on.
  void keep_views();

  const std::map<std::string, Array, std::less<>>& arrays() const noexcept {
    return arrays_;
  }
  /// Of all arrays.
  std::uint64_t bytes() const noexcept;
  bool has(std::string_view name) const { return arrays_.contains(name); }
  /// Throws DataError when there is none of that name.
  const Array& at(std::string_view name) const;
  /// The elements; throws DataError when there is none of that name or it is of another
  /// type.
  template <Element T>
  std::span<const T> values(std::string_view name) const {
    const Array& array = typed(name, dtype_of<T>());
    return {reinterpret_cast<const T*>(array.bytes.data()),
            array.bytes.size() / sizeof(T)};
  }
  /// The same of an array with one element.
  template <Element T>
  T scalar(std::string_view name) const {
    return values<T>(one(name)).front();
  }

  /// The file in pieces: `header`, which is written here, then the arrays in their own memory.
  /// Wider elements come first, so that all are aligned. Throws ContractError when the header is
  /// longer than a reader accepts, or has more than 16384 keys of metadata.
  std::vector<std::span<const std::byte>> pieces(std::string& header) const;

  /// Reads a whole file. Throws DataError, which calls the file `what`, unless it is as described
  /// above, with every array aligned to its element. Takes at most twice the memory of the file,
  /// and 8 MiB.
  static Container parse(std::vector<std::byte> file, const std::string& what);

 private:
  /// `memory` holds the array's bytes.
  void take_over(const std::string& name, std::shared_ptr<const void> memory);
  const Array& typed(std::string_view name, Dtype dtype) const;
  std::string_view one(std::string_view name) const;

  std::map<std::string, Array, std::less<>> arrays_;
  std::vector<std::shared_ptr<const void>> kept_;
};

}  // namespace topknot::store
