// SPDX-License-Identifier: Apache-2.0
//
// Recorded utterances and their transcripts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/formats/audio.h"
#include "data/split.h"

namespace topknot::data {

/// The classes of a recogniser: 0 is CTC's blank, then apostrophe, A to Z, and space.
constexpr std::string_view kAlphabet = "_'ABCDEFGHIJKLMNOPQRSTUVWXYZ ";

/// The ids of a transcript's letters; case does not matter. Throws DataError at a character
/// that is not in the alphabet.
std::vector<std::int32_t> letter_ids(std::string_view transcript);

/// A set of utterances. It is immutable, so any number of threads may read.
class Speech {
 public:
  virtual ~Speech();
  virtual std::size_t size() const = 0;
  /// Words in capital letters with single spaces between them.
  virtual const std::string& transcript(std::size_t i) const = 0;
  /// Samples in [-1, 1), kSampleRate a second. Throws DataError at a broken file.
  virtual std::vector<float> samples(std::size_t i) const = 0;
};

/// Opens a data set that has a SpeechReader, such as "an4", or "generated:size=400,seed=1":
/// digits made of gliding tones, whose test half has a quarter of `size`. Throws ConfigError at
/// another name, DataError where a file is missing or broken or a transcript has no file.
std::unique_ptr<Speech> open_speech(std::string_view name,
                                    const std::filesystem::path& folder, Split split);

}  // namespace topknot::data
