// SPDX-License-Identifier: Apache-2.0
//
// What is known of each data set before one has it: where it is published, under which
// licence, what is in it, and how to tell that a folder has it. `topknot data` prepares
// sets by this table, and readers find their folder by it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace topknot::data {

/// A file that a publisher offers.
struct Archive {
  std::string_view name;
  std::string_view url;
  std::string_view hash;  ///< "md5:..." or "sha256:..."
};

enum class Packing { files, tar, zip };

struct Set {
  std::string_view name;
  std::string_view summary;
  std::string_view licence;
  std::string_view folder;  ///< what its folder is called, inside the one that is named
  double megabytes = 0;     ///< to fetch
  Packing packing = Packing::files;
  std::vector<Archive> archives = {};  ///< none: it has to be got by hand
  /// What an archive may have in it, relative to where it is unpacked. Those that end in /
  /// stand for all below them; the others must be there.
  std::vector<std::string_view> members = {};
  /// A folder with one of these in it is the set's.
  std::vector<std::string_view> marks = {};
  std::string_view by_hand = {};        ///< another way to it, as the end of a sentence
  std::string_view system_folder = {};  ///< where the distribution's package puts it
};

/// All sets, images first.
std::span<const Set> sets();

/// Throws ConfigError with the nearest name when there is none.
const Set& find_set(std::string_view name);

/// The folder that has the set's files: `folder`, or the set's own in it; where `folder` is
/// empty, the package's. Throws DataError that says how to get the set when neither has a
/// mark of it.
std::filesystem::path find_folder(const Set& set, const std::filesystem::path& folder);

/// How to get the set: "topknot data cifar10 DIR fetches it.", or by hand.
std::string cure(const Set& set);

}  // namespace topknot::data
