// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>

#include "data/file.h"
#include "data/speech.h"
#include "data/text.h"
#include "topknot/error.h"

namespace topknot::data {
namespace {

namespace fs = std::filesystem;
using View = std::span<const std::uint8_t>;

constexpr std::size_t kMostBytes = std::size_t{1} << 28;

[[noreturn]] void refuse(const fs::path& file, const std::string& what) {
  throw DataError(about(file) + what + ".");
}

std::uint32_t little_endian(View at, std::size_t bytes) {
  std::uint32_t value = 0;
  for (std::size_t b = 0; b < bytes; ++b) value |= std::uint32_t{at[b]} << (8 * b);
  return value;
}

bool begins(View bytes, std::string_view mark) {
  return bytes.size() >= mark.size() &&
         std::memcmp(bytes.data(), mark.data(), mark.size()) == 0;
}

float sample(View bytes, std::size_t i, bool big) {
  const unsigned low = bytes[2 * i + (big ? 1 : 0)];
  const unsigned high = bytes[2 * i + (big ? 0 : 1)];
  return static_cast<float>(static_cast<std::int16_t>(low | (high << 8))) / 32768.0F;
}

std::vector<float> to_samples(View bytes, bool big) {
  std::vector<float> samples(bytes.size() / 2);
  for (std::size_t i = 0; i < samples.size(); ++i) samples[i] = sample(bytes, i, big);
  return samples;
}

struct Format {
  std::uint32_t channels = 0, rate = 0, bits = 0;
};

void check_format(const fs::path& file, const Format& format) {
  if (format.channels != 1 || format.rate != kSampleRate || format.bits != 16)
    refuse(file, "has " + std::to_string(format.channels) + " channels of " +
                     std::to_string(format.bits) + " bits at " +
                     std::to_string(format.rate) + " Hz; one of 16 bits at " +
                     std::to_string(kSampleRate) + " Hz is read");
}

/// RIFF: chunks of a name, a size and that many bytes, padded to even.
std::vector<float> read_wave(const fs::path& file, View bytes) {
  if (bytes.size() < 12 || !begins(bytes.subspan(8), "WAVE"))
    refuse(file, "is RIFF but not a wave file");
  bool formatted = false;
  for (View rest = bytes.subspan(12); rest.size() >= 8;) {
    const std::size_t size = little_endian(rest.subspan(4), 4);
    const View body = rest.subspan(8);
    if (size > body.size())
      refuse(file, "is cut short: a part of " + std::to_string(size) + " bytes has " +
                       std::to_string(body.size()));
    if (begins(rest, "fmt ")) {
      if (size < 16)
        refuse(file, "has a format of only " + std::to_string(size) + " bytes");
      if (little_endian(body, 2) != 1) refuse(file, "is not plain PCM");
      check_format(file,
                   {little_endian(body.subspan(2), 2), little_endian(body.subspan(4), 4),
                    little_endian(body.subspan(14), 2)});
      formatted = true;
    } else if (begins(rest, "data")) {
      if (!formatted) refuse(file, "has samples before their format");
      if (size % 2 != 0) refuse(file, "has half a sample");
      return to_samples(body.first(size), false);
    }
    rest = body.subspan(std::min(body.size(), size + size % 2));
  }
  refuse(file, "has no samples: it was cut short");
}

/// NIST's header is text: a line "name -type value" for each field, up to "end_head".
class SphereHeader {
 public:
  SphereHeader(const fs::path& file, View bytes) : file_(file) {
    text_ = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    if (bytes.size() < 16) refuse(file, "is cut short within its header");
    const std::optional<std::size_t> size = number(text_.substr(8, 7));
    if (!size || *size < 16 || *size > bytes.size())
      refuse(file, "is cut short within its header");
    size_ = *size;
    text_ = text_.substr(0, size_);
    if (text_.find("end_head") == std::string_view::npos)
      refuse(file, "has a header without end_head");
  }

  std::size_t size() const { return size_; }

  std::optional<std::string> text(std::string_view name) const {
    std::optional<std::string> value;
    for_each_line(text_, [&](std::string_view line) {
      std::vector<std::string_view> words;
      for_each_word(line, [&](std::string_view word) { words.push_back(word); });
      if (words.size() >= 3 && words[0] == name) value = std::string(words[2]);
    });
    return value;
  }

  std::size_t field(std::string_view name,
                    std::optional<std::size_t> fallback = {}) const {
    const std::optional<std::string> value = text(name);
    if (!value && fallback) return *fallback;
    const std::optional<std::size_t> parsed = value ? number(*value) : std::nullopt;
    if (!parsed || *parsed > kMostBytes)
      refuse(file_, "has a header without a good " + std::string(name));
    return *parsed;
  }

 private:
  static std::optional<std::size_t> number(std::string_view text) {
    while (text.starts_with(' ')) text.remove_prefix(1);
    std::size_t value = 0;
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end == text.data()) return std::nullopt;
    return value;
  }

  const fs::path& file_;
  std::string_view text_;
  std::size_t size_ = 0;
};

std::vector<float> read_sphere(const fs::path& file, View bytes) {
  const SphereHeader header(file, bytes);
  const std::string coding = header.text("sample_coding").value_or("pcm");
  if (coding != "pcm")
    refuse(file, "is coded as " + in_quotes(coding) +
                     "; write it anew as pcm (sph2pipe does, or sox)");
  check_format(file,
               {static_cast<std::uint32_t>(header.field("channel_count", 1)),
                static_cast<std::uint32_t>(header.field("sample_rate", kSampleRate)),
                static_cast<std::uint32_t>(8 * header.field("sample_n_bytes", 2))});
  const std::size_t count = header.field("sample_count");
  const View body = bytes.subspan(header.size());
  if (count > body.size() / 2)
    refuse(file, "is cut short: its header asks for " + std::to_string(count) +
                     " samples and it has " + std::to_string(body.size() / 2));
  const std::string order = header.text("sample_byte_format").value_or("01");
  if (order != "01" && order != "10")
    refuse(file, "has the unknown byte order " + in_quotes(order));
  return to_samples(body.first(2 * count), order == "10");
}

/// Of the two readings the one with the smaller steps: speech is smooth, and swapping bytes
/// makes noise of it.
std::vector<float> read_raw(const fs::path& file, View bytes) {
  if (bytes.empty() || bytes.size() % 2 != 0)
    refuse(file, "has " + std::to_string(bytes.size()) +
                     " bytes, which is not a whole number of 16-bit samples");
  double steps[2] = {0, 0};
  for (std::size_t i = 1; i < bytes.size() / 2; ++i)
    for (const bool big : {false, true})
      steps[big ? 1 : 0] += std::abs(sample(bytes, i, big) - sample(bytes, i - 1, big));
  return to_samples(bytes, steps[1] < steps[0]);
}

}  // namespace

std::vector<float> read_audio(const fs::path& file) {
  const Bytes bytes = read_file(file, kMostBytes);
  if (begins(bytes, "RIFF")) return read_wave(file, bytes);
  if (begins(bytes, "NIST_1A\n")) return read_sphere(file, bytes);
  if (file.extension() != ".raw")
    refuse(file,
           "is neither a wave nor a NIST sphere file; raw samples are in files .raw");
  return read_raw(file, bytes);
}

}  // namespace topknot::data
