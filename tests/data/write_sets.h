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

#include "data/sets.h"
#include "data/write_domains.h"
#include "data/write_images.h"

namespace topknot::data {

/// A tiny set by its name, in the folder of its own below `folder`. That of wikipedia-en
/// goes with that of bert-vocab.
inline void write_set(std::string_view name, const std::filesystem::path& folder) {
  const std::filesystem::path own = folder / find_set(name).folder;
  if (name == "mnist" || name == "fashion-mnist") return write_idx(own, 128, 32);
  if (name == "cifar10") return write_cifar10(own, 32);
  if (name == "cifar100") return write_cifar100(own, 128, 32);
  if (name == "imagenet") return write_folders(own, 4, 8, 64);
  if (name == "wikitext2") return write_wikitext(own, 400);
  if (name == "bert-vocab") return write_vocabulary(own / "vocab.txt");
  if (name == "wikipedia-en") return write_shards(own, 40);
  if (name == "an4") return write_an4(own, 16, 8);
  if (name == "ml-1m") return write_ratings(own / "ratings.dat", "::");
  if (name == "ml-20m") return write_ratings(own / "ratings.csv", ",");
  throw std::runtime_error("no writer for " + std::string(name));
}

}  // namespace topknot::data
