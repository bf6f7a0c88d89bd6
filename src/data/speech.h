// SPDX-License-Identifier: Apache-2.0
//
// Spoken utterances and what was said.
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

/// What a recogniser tells apart: 0 is CTC's blank, then apostrophe, A to Z, and space.
constexpr std::string_view kAlphabet = "_'ABCDEFGHIJKLMNOPQRSTUVWXYZ ";

/// The ids of a transcript's letters, small ones as large ones. Throws DataError at a letter
/// that is not in the alphabet.
std::vector<std::int32_t> letter_ids(std::string_view transcript);

/// Nothing changes after it was opened: any number of threads may read.
class Speech {
 public:
  virtual ~Speech();
  virtual std::size_t size() const = 0;
  /// Words in capital letters, parted by single spaces.
  virtual const std::string& transcript(std::size_t i) const = 0;
  /// Samples in [-1, 1), kSampleRate a second. Throws DataError at a broken file.
  virtual std::vector<float> samples(std::size_t i) const = 0;
};

/// "an4" (FOLDER/etc/an4_{train,test}.{fileids,transcription} and FOLDER/wav/ID.{wav,sph,raw}),
/// or "generated:size=400,seed=1": digits of two gliding tones each, read by many voices; the
/// test half has a quarter. Throws ConfigError, or DataError when a file is missing or broken
/// or a transcript has no file.
std::unique_ptr<Speech> open_speech(std::string_view name,
                                    const std::filesystem::path& folder, Split split);

}  // namespace topknot::data
