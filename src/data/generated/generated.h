// SPDX-License-Identifier: Apache-2.0
//
// A set for each kind of data that needs no download. It is made from a seed, with the same
// bytes on every machine. `params` are those after "generated:".
#pragma once

#include "data/documents.h"
#include "data/images.h"
#include "data/ratings.h"
#include "data/speech.h"
#include "data/text.h"
#include "data/wordpiece.h"
#include "topknot/params.h"

namespace topknot::data {

std::unique_ptr<Images> make_images(Split split, Params& params);
/// Sentences of a Grammar.
Words make_words(Params& params);
/// Letters, and the words of a Grammar.
WordPiece make_word_pieces(Params& params);
Documents make_documents(Params& params, Split split, const WordPiece& pieces);
std::unique_ptr<Speech> make_speech(Split split, Params& params);
/// Latent factors: users and items have eight each, an item also has a popularity, and a user
/// rates the best of a random choice of items.
std::vector<RawRating> make_ratings(Params& params);

}  // namespace topknot::data
