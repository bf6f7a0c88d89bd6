// SPDX-License-Identifier: Apache-2.0
//
// AN4: a list of file ids, "an4_clstk/fash/an251-fash-b", and a list of transcripts in the
// same order, "<s> YES </s> (an251-fash-b)"; only those of the training half have <s> and </s>.
#include <algorithm>

#include "data/dataset.h"
#include "data/speech.h"
#include "data/text.h"

namespace topknot::data::sets {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = std::size_t{1} << 28;

struct Said {
  std::string id;
  std::string words;
};

std::vector<std::string> read_ids(const fs::path& file) {
  const std::string text = read_text(file, kMostBytes);
  std::vector<std::string> ids;
  for_each_line(text, [&](std::string_view line) {
    if (line.empty()) return;
    const fs::path id(line);
    if (id.is_absolute() || std::find(id.begin(), id.end(), "..") != id.end())
      throw DataError(about(file) + in_quotes(line) + " leads out of the set.");
    ids.emplace_back(line);
  });
  if (ids.empty()) throw DataError(about(file) + "there is no file id in it.");
  return ids;
}

Said parse_transcript(const fs::path& file, std::size_t number, std::string_view line) {
  const std::size_t left = line.rfind('(');
  const std::size_t right = line.rfind(')');
  const auto refuse = [&](const std::string& what) {
    throw DataError(about(file) + "line " + std::to_string(number) + " " + what + ".");
  };
  if (left == std::string_view::npos || right == std::string_view::npos || right < left)
    refuse("does not end in (file id)");
  Said said{std::string(line.substr(left + 1, right - left - 1)), ""};
  for_each_word(line.substr(0, left), [&](std::string_view word) {
    if (word == "<s>" || word == "</s>") return;
    if (!said.words.empty()) said.words += ' ';
    said.words += word;
  });
  if (said.words.empty()) refuse("says nothing");
  for (char& c : said.words)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  try {
    letter_ids(said.words);
  } catch (const DataError& error) {
    refuse("cannot be spelled: " + std::string(error.what()));
  }
  return said;
}

std::vector<Said> read_transcripts(const fs::path& file) {
  const std::string text = read_text(file, kMostBytes);
  std::vector<Said> all;
  std::size_t number = 0;
  for_each_line(text, [&](std::string_view line) {
    ++number;
    if (line.find_first_not_of(" \t") != std::string_view::npos)
      all.push_back(parse_transcript(file, number, line));
  });
  return all;
}

class An4 final : public Speech {
 public:
  An4(const fs::path& folder, Split split) {
    const std::string half = split == Split::train ? "an4_train" : "an4_test";
    const fs::path id_file = folder / "etc" / (half + ".fileids");
    const fs::path said_file = folder / "etc" / (half + ".transcription");
    const std::vector<std::string> ids = read_ids(id_file);
    said_ = read_transcripts(said_file);
    for (std::size_t i = 0; i < std::max(ids.size(), said_.size()); ++i) {
      const std::string id = i < ids.size() ? fs::path(ids[i]).filename().string() : "";
      if (i >= said_.size())
        throw DataError(about(said_file) + "has no line for " + ids[i] + ".");
      if (id != said_[i].id)
        throw DataError(about(said_file) + "transcript " + std::to_string(i + 1) +
                        " is of " + in_quotes(said_[i].id) + ", and " +
                        id_file.filename().string() + " has " + in_quotes(id) +
                        " there.");
      files_.push_back(find_file(folder / "wav", ids[i]));
    }
  }

  std::size_t size() const override { return files_.size(); }
  const std::string& transcript(std::size_t i) const override {
    check(i);
    return said_[i].words;
  }
  std::vector<float> samples(std::size_t i) const override {
    check(i);
    return read_audio(files_[i]);
  }

 private:
  void check(std::size_t i) const {
    if (i >= size())
      throw ContractError("There is no utterance " + std::to_string(i) + ": there are " +
                          std::to_string(size()) + ", counted from 0.");
  }

  static fs::path find_file(const fs::path& folder, const std::string& id) {
    std::error_code error;
    for (const char* extension : {".wav", ".sph", ".raw"}) {
      fs::path file = folder / (id + extension);
      if (fs::is_regular_file(file, error)) return file;
    }
    throw DataError(about(folder / id) +
                    "there is a transcript but no .wav, .sph or .raw.");
  }

  std::vector<fs::path> files_;
  std::vector<Said> said_;
};

std::unique_ptr<Speech> open(const fs::path& folder, Split split) {
  return std::make_unique<An4>(folder, split);
}

}  // namespace

Dataset an4() {
  return {
      .name = "an4",
      .summary = "1,078 spoken addresses, names and numbers, 16 kHz",
      .licence = "CMU's, for any use (see LICENSE in it)",
      .folder = "an4",
      .megabytes = 64.3,
      .packing = Packing::tar,
      .archives = {{"an4_sphere.tar.gz",
                    "http://www.speech.cs.cmu.edu/databases/an4/an4_sphere.tar.gz",
                    "sha256:"
                    "a0525579493735d32b60fb6fa5975dd0eaacde087b0a4eeb7f13b7ef33077b12"}},
      .members = {"an4/etc/an4_train.fileids", "an4/etc/an4_train.transcription",
                  "an4/etc/an4_test.fileids", "an4/etc/an4_test.transcription", "an4/"},
      .marks = {"etc"},
      .reader = SpeechReader{open}};
}

}  // namespace topknot::data::sets
