// SPDX-License-Identifier: Apache-2.0
//
// AN4: a list of file ids, "an4_clstk/fash/an251-fash-b", and a list of transcripts in the
// same order, "<s> YES </s> (an251-fash-b)"; the marks of begin and end are in the training
// half only.
#include "data/speech.h"

#include <algorithm>

#include "data/file.h"
#include "data/sets.h"
#include "data/spoken_tones.h"
#include "data/text.h"
#include "topknot/error.h"
#include "topknot/params.h"

namespace topknot::data {
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
  const std::size_t open = line.rfind('(');
  const std::size_t close = line.rfind(')');
  const auto refuse = [&](const std::string& what) {
    throw DataError(about(file) + "line " + std::to_string(number) + " " + what + ".");
  };
  if (open == std::string_view::npos || close == std::string_view::npos || close < open)
    refuse("does not end in (file id)");
  Said said{std::string(line.substr(open + 1, close - open - 1)), ""};
  for_each_word(line.substr(0, open), [&](std::string_view word) {
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
      throw ContractError("Utterance " + std::to_string(i) + " was asked for of " +
                          std::to_string(size()) + ".");
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

}  // namespace

Speech::~Speech() = default;

std::vector<std::int32_t> letter_ids(std::string_view transcript) {
  std::vector<std::int32_t> ids;
  ids.reserve(transcript.size());
  for (const char c : transcript) {
    const char large = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    const std::size_t id = kAlphabet.find(large, 1);
    if (id == std::string_view::npos)
      throw DataError(in_quotes(std::string(1, c)) + " in " + in_quotes(transcript) +
                      " is not a letter, apostrophe or space.");
    ids.push_back(static_cast<std::int32_t>(id));
  }
  return ids;
}

std::unique_ptr<Speech> open_speech(std::string_view name, const fs::path& folder,
                                    Split split) {
  Spec spec = Spec::parse(name);
  if (spec.name == "generated") {
    std::unique_ptr<Speech> speech = make_speech(split, spec.params);
    spec.params.refuse_unknown("generated speech");
    return speech;
  }
  if (spec.name != "an4")
    throw ConfigError("There is no speech " + in_quotes(spec.name) +
                      "; there are an4 and generated.");
  spec.params.refuse_unknown(spec.name);
  return std::make_unique<An4>(find_folder(find_set(spec.name), folder), split);
}

}  // namespace topknot::data
