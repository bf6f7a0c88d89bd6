// SPDX-License-Identifier: Apache-2.0
#include "data/contents.h"

#include "data/images.h"

namespace topknot::data {

Contents contents(const Set& set, const std::filesystem::path& folder) {
  const auto train = open_images(set.name, folder, Split::train);
  const auto test = open_images(set.name, folder, Split::test);
  return {{"training images", train->size()},
          {"test images", test->size()},
          {"classes", static_cast<std::size_t>(train->classes())}};
}

}  // namespace topknot::data
