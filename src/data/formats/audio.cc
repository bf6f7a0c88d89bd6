// SPDX-License-Identifier: Apache-2.0
//
// Recordings, decoded by libsndfile. It accepts a file that was cut short and numbers that
// overflow, so the sizes in the headers are checked here.
#include "data/formats/audio.h"

#include <sndfile.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>

#include "data/file.h"
#include "topknot/error.h"

namespace topknot::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = std::size_t{1} << 28;
constexpr std::size_t kSphereHeader = 1024;  // the only size that libsndfile takes

[[noreturn]] void refuse(const fs::path& file, const std::string& what) {
  throw DataError(about(file) + what + ".");
}

/// Bytes in memory as a file that libsndfile can read.
struct MemoryFile {
  std::string_view bytes;
  sf_count_t at = 0;

  static MemoryFile& of(void* file) { return *static_cast<MemoryFile*>(file); }
  static sf_count_t size(void* file) {
    return static_cast<sf_count_t>(of(file).bytes.size());
  }
  static sf_count_t tell(void* file) { return of(file).at; }
  static sf_count_t seek(sf_count_t offset, int whence, void* file) {
    const sf_count_t base = whence == SEEK_SET   ? 0
                            : whence == SEEK_CUR ? tell(file)
                                                 : size(file);
    return of(file).at = std::clamp(base + offset, sf_count_t{0}, size(file));
  }
  static sf_count_t read(void* to, sf_count_t count, void* file) {
    count = std::clamp(count, sf_count_t{0}, size(file) - tell(file));
    std::memcpy(to, of(file).bytes.data() + tell(file), static_cast<std::size_t>(count));
    of(file).at += count;
    return count;
  }
};

std::string coding_name(int format) {
  SF_FORMAT_INFO coding{
      .format = format & SF_FORMAT_SUBMASK, .name = nullptr, .extension = nullptr};
  sf_command(nullptr, SFC_GET_FORMAT_INFO, &coding, sizeof coding);
  return coding.name != nullptr ? coding.name : "an unknown coding";
}

/// All samples of `bytes`. Raw samples need `info`; other formats have a header.
std::vector<float> decode(const fs::path& file, std::string_view bytes,
                          SF_INFO info = {}) {
  MemoryFile memory{bytes};
  SF_VIRTUAL_IO io{MemoryFile::size, MemoryFile::seek, MemoryFile::read, nullptr,
                   MemoryFile::tell};
  const std::unique_ptr<SNDFILE, decltype(&sf_close)> sound(
      sf_open_virtual(&io, SFM_READ, &info, &memory), &sf_close);
  if (!sound)
    refuse(file, "cannot be decoded (" + std::string(sf_strerror(nullptr)) +
                     "); write it anew as 16-bit PCM");
  if ((info.format & SF_FORMAT_SUBMASK) != SF_FORMAT_PCM_16 || info.channels != 1 ||
      info.samplerate != static_cast<int>(kSampleRate))
    refuse(file, "has " + std::to_string(info.channels) + " channels of " +
                     coding_name(info.format) + " at " + std::to_string(info.samplerate) +
                     " Hz; it must have one of 16-bit PCM at " +
                     std::to_string(kSampleRate) + " Hz");
  std::vector<float> samples(bytes.size() / 2);
  const sf_count_t count =
      sf_read_float(sound.get(), samples.data(), static_cast<sf_count_t>(samples.size()));
  samples.resize(static_cast<std::size_t>(count));
  return samples;
}

std::vector<float> read_wave(const fs::path& file, std::string_view bytes) {
  // "RIFF" and a little-endian word, the number of bytes that follow.
  std::size_t size = 8;
  for (std::size_t b = 0; b < 4 && 4 + b < bytes.size(); ++b)
    size += std::size_t{static_cast<unsigned char>(bytes[4 + b])} << (8 * b);
  if (size > bytes.size())
    refuse(file, "is cut short: its header asks for " + std::to_string(size) +
                     " bytes and it has " + std::to_string(bytes.size()));
  return decode(file, bytes);
}

/// The value of the line "NAME -i VALUE" of a NIST header, if it has that line.
std::optional<std::size_t> sphere_field(const fs::path& file, std::string_view header,
                                        const std::string& name) {
  const std::string before = name + " -i ";
  const std::size_t at = header.find(before);
  if (at == std::string_view::npos) return std::nullopt;
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(header.data() + at + before.size(),
                                            header.data() + header.size(), value);
  if (error != std::errc{} || value > kMostBytes)
    refuse(file, "has a header without a good " + name);
  return value;
}

std::vector<float> read_sphere(const fs::path& file, std::string_view bytes) {
  if (bytes.size() < kSphereHeader) refuse(file, "is cut short within its header");
  const std::string_view header = bytes.substr(0, kSphereHeader);
  for (const char* name : {"channel_count", "sample_rate", "sample_n_bytes"})
    sphere_field(file, header, name);
  const std::optional<std::size_t> count = sphere_field(file, header, "sample_count");
  if (!count) refuse(file, "has a header without a good sample_count");
  std::vector<float> samples = decode(file, bytes);
  if (*count > samples.size())
    refuse(file, "is cut short: its header asks for " + std::to_string(*count) +
                     " samples and it has " + std::to_string(samples.size()));
  samples.resize(*count);
  return samples;
}

/// The total variation of the curve.
double variation(const std::vector<float>& samples) {
  double sum = 0;
  for (std::size_t i = 1; i < samples.size(); ++i)
    sum += std::abs(samples[i] - samples[i - 1]);
  return sum;
}

/// Decodes in both byte orders and takes the smoother curve: speech is smooth, and swapping
/// the bytes makes noise of it.
std::vector<float> read_raw(const fs::path& file, std::string_view bytes) {
  if (bytes.empty() || bytes.size() % 2 != 0)
    refuse(file, "has " + std::to_string(bytes.size()) +
                     " bytes, which is not a whole number of 16-bit samples");
  SF_INFO info{};
  info.channels = 1;
  info.samplerate = static_cast<int>(kSampleRate);
  info.format = SF_FORMAT_RAW | SF_FORMAT_PCM_16 | SF_ENDIAN_LITTLE;
  std::vector<float> little = decode(file, bytes, info);
  info.format = SF_FORMAT_RAW | SF_FORMAT_PCM_16 | SF_ENDIAN_BIG;
  std::vector<float> big = decode(file, bytes, info);
  return variation(big) < variation(little) ? big : little;
}

}  // namespace

std::vector<float> read_audio(const fs::path& file) {
  const Bytes read = read_file(file, kMostBytes);
  const std::string_view bytes(reinterpret_cast<const char*>(read.data()), read.size());
  if (bytes.starts_with("RIFF")) return read_wave(file, bytes);
  if (bytes.starts_with("NIST_1A\n")) return read_sphere(file, bytes);
  if (file.extension() != ".raw")
    refuse(file,
           "is neither a wave nor a NIST sphere file; raw samples are in files .raw");
  return read_raw(file, bytes);
}

}  // namespace topknot::data
