// SPDX-License-Identifier: Apache-2.0
//
// Writes tiny data sets in the real sets' formats, so that what reads them can be tried
// without a download. Their contents are those of the generated sets, so that there is
// something to learn.
//
//     TemporaryFolder folder;
//     write_set("cifar10", folder.path());
//     open_images("cifar10", folder.path(), Split::train);
//
// A test outside tests/data/ that includes this links topknot_data.
#pragma once

#include "data/dataset.h"
#include "data/write_domains.h"
#include "data/write_images.h"

namespace topknot::data {

/// Writes a tiny set, by its name, to its own folder below `folder`; false where nobody has
/// written how. That of wikipedia-en goes with that of bert-vocab.
inline bool write_set(std::string_view name, const std::filesystem::path& folder) {
  const std::filesystem::path own = folder / find_dataset(name).folder;
  if (name == "mnist" || name == "fashion-mnist")
    write_idx(own, 128, 32);
  else if (name == "cifar10")
    write_cifar10(own, 32);
  else if (name == "cifar100")
    write_cifar100(own, 128, 32);
  else if (name == "imagenet")
    write_folders(own, 4, 8, 64);
  else if (name == "wikitext2")
    write_wikitext(own, 400);
  else if (name == "bert-vocab")
    write_vocabulary(own / "vocab.txt");
  else if (name == "wikipedia-en")
    write_shards(own, 40);
  else if (name == "an4")
    write_an4(own, 16, 8);
  else if (name == "ml-1m")
    write_ratings(own / "ratings.dat", "::");
  else if (name == "ml-20m")
    write_ratings(own / "ratings.csv", ",");
  else
    return false;
  return true;
}

}  // namespace topknot::data
