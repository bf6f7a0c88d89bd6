// SPDX-License-Identifier: Apache-2.0
//
// The registry of data sets: where each is published, under which licence, what is in its
// archives, how to tell that a folder has it, and how to read it. A data set is one file in
// data/sets/ and one line in datasets.def. `topknot data`, the open_... functions and the
// summaries know data sets by this registry only.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "data/file.h"
#include "data/images.h"
#include "data/split.h"
#include "topknot/error.h"
#include "topknot/params.h"

namespace topknot::data {

class Documents;
class Ratings;
class Speech;
class WordPiece;
struct Words;

/// A file that a publisher offers.
struct Archive {
  std::string_view name;
  std::string_view url;
  std::string_view hash;  ///< "md5:..." or "sha256:..."
};

enum class Packing { files, tar, zip };

/// An archive of the same data that cannot be read.
struct OtherVersion {
  std::string_view prefix;  ///< its members begin with this
  std::string_view reason;  ///< a clause: "this is ..."
};

// Readers, one type for each kind of data. `folder` is the one that has the set's files. They
// throw DataError where a file is missing, cut short or not what it should be.

struct ImageReader {
  std::unique_ptr<Images> (*open)(const std::filesystem::path& folder, Split split,
                                  Params& params);
  Normalisation normalisation;
  bool takes_parameters = false;  ///< `open` reads `params`
};
struct WordsReader {
  Words (*open)(const std::filesystem::path& folder);
};
struct WordPieceReader {
  WordPiece (*open)(const std::filesystem::path& folder);
};
struct DocumentsReader {
  Documents (*open)(const std::filesystem::path& folder, Split split,
                    const WordPiece& pieces);
};
struct SpeechReader {
  std::unique_ptr<Speech> (*open)(const std::filesystem::path& folder, Split split);
};
struct RatingsReader {
  Ratings (*open)(const std::filesystem::path& folder);
};

using Reader = std::variant<ImageReader, WordsReader, WordPieceReader, DocumentsReader,
                            SpeechReader, RatingsReader>;

struct Dataset {
  std::string_view name;
  std::string_view summary;
  std::string_view licence;
  std::string_view folder;  ///< the name of its folder inside the user's
  double megabytes = 0;     ///< to fetch
  Packing packing = Packing::files;
  std::vector<Archive> archives = {};  ///< empty: the user has to get the set by hand
  /// What an archive may contain, relative to where it is unpacked. A name that ends in /
  /// stands for all below it; an archive must contain every other one.
  std::vector<std::string_view> members = {};
  std::vector<OtherVersion> other_versions = {};
  /// A folder that has one of these is the set's.
  std::vector<std::string_view> marks = {};
  std::string_view by_hand = {};  ///< another way to get it, as the end of a sentence
  std::string_view system_folder = {};  ///< where the distribution's package puts it
  Reader reader;
};

/// All data sets in the order of datasets.def.
std::span<const Dataset> datasets();

/// Throws ConfigError that names the nearest when there is none of that name.
const Dataset& find_dataset(std::string_view name);

/// Whether `folder`, or the set's own in it, has a mark of the set.
bool has_set(const Dataset& set, const std::filesystem::path& folder);

/// The folder that has the set's files: `folder`, or the set's own in it; where `folder` is
/// empty, the package's. Throws DataError that says how to get the set when neither has a
/// mark of it.
std::filesystem::path find_folder(const Dataset& set,
                                  const std::filesystem::path& folder);

/// How to get the set: "`topknot data cifar10` fetches it.", or by hand.
std::string how_to_get(const Dataset& set);

/// The data set `name` whose reader is a ReaderType. Throws ConfigError that begins with
/// `absence`, such as "There is no speech", and names all that there are.
template <typename ReaderType>
const Dataset& find_dataset_of(std::string_view name, std::string_view absence) {
  std::string names;
  for (const Dataset& set : datasets()) {
    if (!std::holds_alternative<ReaderType>(set.reader)) continue;
    if (set.name == name) return set;
    names += (names.empty() ? "" : ", ") + std::string(set.name);
  }
  throw ConfigError(std::string(absence) + " " + in_quotes(name) + "; there are " +
                    names + " and generated.");
}

}  // namespace topknot::data
