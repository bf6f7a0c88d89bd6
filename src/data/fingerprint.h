// SPDX-License-Identifier: Apache-2.0
//
// Hashes of data sets, by which ranks find out whether they have the same data.
#pragma once

#include <cstdint>

#include "data/documents.h"
#include "data/images.h"
#include "data/ratings.h"
#include "data/speech.h"
#include "data/text.h"

namespace topknot::data {

/// Covers all labels and pixels of a set in memory. Of any other set it covers 256 images
/// spread over the set, and up to two million labels.
std::uint64_t fingerprint(const Images& images);
/// Covers all words in all three parts.
std::uint64_t fingerprint(const Words& words);
/// Covers all word pieces of all sentences.
std::uint64_t fingerprint(const Documents& documents);
/// Covers all ratings, held-out items and negatives.
std::uint64_t fingerprint(const Ratings& ratings);
/// Covers all transcripts and samples, and so reads every file.
std::uint64_t fingerprint(const Speech& speech);

}  // namespace topknot::data
