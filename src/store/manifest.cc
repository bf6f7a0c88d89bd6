// SPDX-License-Identifier: Apache-2.0
//
// Reading checks twice: the hash is compared first, and the manifest that was read must be written
// as the very same text.

#include "store/manifest.h"

#include <charconv>
#include <cstdio>
#include <string_view>

#include "core/hash.h"
#include "core/text.h"
#include "topknot/error.h"

namespace topknot::store {
namespace {

constexpr std::string_view kTitle = "topknot checkpoint ";

std::string hash_line(std::string_view text) {
  return "hash " + core::hexadecimal(core::hash(std::as_bytes(std::span(text)))) + "\n";
}

const std::string& line_of(const std::string& text, const char* what) {
  for (const char c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F)
      throw ContractError(std::string("The checkpoint's ") + what +
                          " must be one line without control characters.");
  return text;
}

std::string file_line(const FileSeal& seal, const std::string& name) {
  return "file " + std::to_string(seal.bytes) + " " + core::hexadecimal(seal.hash) + " " +
         name + "\n";
}

/// Removes words and lines from the front of a text. From the first that is not as asked for on,
/// good() is false.
class Words {
 public:
  explicit Words(std::string_view left) : left_(left) {}

  void literal(std::string_view word) {
    good_ = good_ && left_.starts_with(word);
    if (good_) left_.remove_prefix(word.size());
  }
  std::uint64_t number(int base = 10) {
    std::uint64_t x = 0;
    const char* begin = left_.data();
    const auto [end, error] = std::from_chars(begin, begin + left_.size(), x, base);
    good_ = good_ && error == std::errc();
    if (good_) left_.remove_prefix(static_cast<std::size_t>(end - begin));
    return x;
  }
  std::string rest_of_line() {
    const std::size_t end = left_.find('\n');
    good_ = good_ && end != std::string_view::npos;
    if (!good_) return {};
    std::string line(left_.substr(0, end));
    left_.remove_prefix(end + 1);
    return line;
  }
  FileSeal file() {
    FileSeal seal;
    literal("file ");
    seal.bytes = number();
    literal(" ");
    seal.hash = number(16);
    rest_of_line();
    return seal;
  }
  bool good() const noexcept { return good_; }

 private:
  std::string_view left_;
  bool good_ = true;
};

void require_version(std::string_view text, const std::string& what) {
  Words words(text);
  words.literal(kTitle);
  const std::uint64_t version = words.number();
  words.literal("\n");
  if (!words.good()) throw DataError(what + " is not the manifest of a checkpoint.");
  if (version != Manifest::kVersion)
    throw DataError(what + " is of version " + std::to_string(version) +
                    "; this program reads version " + std::to_string(Manifest::kVersion) +
                    ".");
}

void require_hash(std::string_view text, const std::string& what) {
  const std::size_t length = hash_line("").size();
  if (text.size() < length || hash_line(text.substr(0, text.size() - length)) !=
                                  text.substr(text.size() - length))
    throw DataError(what + " is damaged: its last line is not its hash.");
}

}  // namespace

FileSeal seal_of(std::span<const std::span<const std::byte>> pieces) {
  FileSeal seal;
  core::Hasher hasher;
  for (const auto& piece : pieces) {
    seal.bytes += piece.size();
    hasher.add(piece);
  }
  seal.hash = hasher.value();
  return seal;
}

std::string weights_name() { return "weights.safetensors"; }

std::string shard_name(std::uint64_t rank) {
  return "shard-" + std::to_string(rank) + ".safetensors";
}

std::string Manifest::str() const {
  std::string text = std::string(kTitle) + std::to_string(kVersion) + "\n";
  text += "step " + std::to_string(step) + "\n";
  text += "ranks " + std::to_string(shards.size()) + "\n";
  text += "attempt " + line_of(attempt, "attempt") + "\n";
  text += "config " + line_of(config, "config") + "\n";
  text += "model " + line_of(model, "model") + "\n";
  text += file_line(weights, weights_name());
  for (std::size_t rank = 0; rank < shards.size(); ++rank)
    text += file_line(shards[rank], shard_name(rank));
  return text + hash_line(text);
}

Manifest Manifest::parse(std::span<const std::byte> bytes, const std::string& what) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  require_version(text, what);
  require_hash(text, what);
  Manifest read;
  Words words(text);
  words.literal(kTitle);
  words.rest_of_line();
  words.literal("step ");
  read.step = words.number();
  words.literal("\nranks ");
  const std::uint64_t ranks = words.number();
  words.literal("\nattempt ");
  read.attempt = words.rest_of_line();
  words.literal("config ");
  read.config = words.rest_of_line();
  words.literal("model ");
  read.model = words.rest_of_line();
  read.weights = words.file();
  for (std::uint64_t i = 0; i < ranks && words.good(); ++i)
    read.shards.push_back(words.file());
  bool same = words.good() && ranks > 0;
  try {
    same = same && read.str() == text;
  } catch (const ContractError&) {
    same = false;
  }
  if (!same) throw DataError(what + " is not written as a manifest is.");
  return read;
}

}  // namespace topknot::store
