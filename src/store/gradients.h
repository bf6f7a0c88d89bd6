// SPDX-License-Identifier: Apache-2.0
//
// Gradients of chosen steps and ranks in one container:
//
//     "step-10/rank-0/layer.weight"    F32, in the parameter's shape
//
// Every step has the same ranks and every rank the same parameters. The container sorts its arrays
// by name, so the metadata has the order of the forward pass, under "parameters", one name on each
// line. A file without it, made by another program, is read in the order of its bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "store/container.h"
#include "store/files.h"
#include "topknot/layout.h"

namespace topknot::store {

/// The metadata's key for the order of the parameters.
inline constexpr const char* kParameterOrder = "parameters";

/// "step-10/rank-0/layer.weight".
std::string gradient_name(std::uint64_t step, std::uint64_t rank,
                          const std::string& parameter);

/// Throws ConfigError when `path` exists, StorageError when no file can be made there. Leaves no
/// file.
void require_room_for(Files& files, const std::string& path);

/// Writes the file under another name and then renames it to `path`, so that there is never a part
/// of one. Throws StorageError.
void write_gradients(Files& files, const std::string& path, const Container& gradients);

/// A file of gradients, read and checked.
class RecordedGradients {
 public:
  /// Throws DataError, naming the file, unless it is as described above, all of it finite.
  RecordedGradients(Files& files, const std::string& path);

  /// The parameters in forward order, one after another.
  const Layout& layout() const noexcept { return layout_; }
  const std::vector<std::uint64_t>& steps() const noexcept { return steps_; }
  const std::vector<std::uint64_t>& ranks() const noexcept { return ranks_; }
  /// The metadata of that key; empty where there is none.
  std::string about(std::string_view key) const;

  /// All parameters of steps()[step] and ranks()[rank], as `layout()` has them.
  std::vector<float> flat(std::size_t step, std::size_t rank) const;

 private:
  void find_steps_and_ranks();
  void find_layout();
  void check_all() const;
  [[noreturn]] void refuse(const std::string& fault) const;

  const std::string path_;
  Container container_;
  Layout layout_;
  std::vector<std::uint64_t> steps_;  // rising
  std::vector<std::uint64_t> ranks_;  // rising
};

}  // namespace topknot::store
