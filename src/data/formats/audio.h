// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace topknot::data {

constexpr std::uint32_t kSampleRate = 16'000;

/// The samples, in [-1, 1), of a file of 16-bit mono at kSampleRate: RIFF wave, NIST sphere
/// (not shortened), or raw samples in a file .raw, in the byte order that makes the smoother
/// curve. Throws DataError at any other format and at a file that is cut short.
std::vector<float> read_audio(const std::filesystem::path& file);

}  // namespace topknot::data
