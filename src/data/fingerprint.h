// SPDX-License-Identifier: Apache-2.0
//
// Of data sets: equal for equal contents, so that ranks can tell whether they have the same.
#pragma once

#include <cstdint>

#include "data/documents.h"
#include "data/images.h"
#include "data/ratings.h"
#include "data/speech.h"
#include "data/text.h"

namespace topknot::data {

/// All labels and pixels of sets that lie in memory. Of others the pixels of 256 images spread
/// over the set, and the labels of up to two million.
std::uint64_t fingerprint(const Images& images);
/// All words, in all three parts.
std::uint64_t fingerprint(const Words& words);
/// All pieces of all sentences.
std::uint64_t fingerprint(const Documents& documents);
/// All ratings, and what they are tested on.
std::uint64_t fingerprint(const Ratings& ratings);
/// All transcripts and samples: reads every file.
std::uint64_t fingerprint(const Speech& speech);

}  // namespace topknot::data
