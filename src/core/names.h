// SPDX-License-Identifier: Apache-2.0
//
// Names that people type: spellings that are the same, and what a name that does not exist was
// probably meant to be.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace topknot::core {

/// Whether two spellings are one name: - and _ are the same.
bool same_name(std::string_view a, std::string_view b);

/// "a, b and c"
std::string listed(const std::vector<std::string>& words, std::string_view last = " and ",
                   std::string_view between = ", ");

/// The names that `wanted` may have been meant to be, the nearest only, in the order of `names`:
/// those with the fewest edits, of which there may be two (one in a word of three letters or
/// less, where a swap of neighbours is one); else those that begin with it, or it with them; else
/// those that share a part between hyphens or underscores with it. Mostly one, often none.
std::vector<std::string> nearest(std::string_view wanted,
                                 const std::vector<std::string>& names);

/// The end of a sentence about a name that does not exist: "; nearest is knot", and where nothing
/// is near "; there are dense, topka and knot". Empty where `names` is.
std::string suggestion(std::string_view wanted, const std::vector<std::string>& names);

}  // namespace topknot::core
