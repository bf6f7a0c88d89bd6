// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace topknot::fuzz {

/// A container's file of a header, whose length is put right, before `data` bytes of zeros.
inline std::vector<std::byte> container_of(std::span<const std::byte> header,
                                           std::size_t data) {
  std::vector<std::byte> file;
  const std::size_t padded = (header.size() + 7) / 8 * 8;
  for (std::size_t i = 0; i < 8; ++i)
    file.push_back(static_cast<std::byte>(padded >> (8 * i)));
  file.insert(file.end(), header.begin(), header.end());
  file.resize(8 + padded, std::byte{' '});
  file.resize(file.size() + data);
  return file;
}

}  // namespace topknot::fuzz
