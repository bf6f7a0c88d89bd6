// SPDX-License-Identifier: Apache-2.0
#include "data/speech.h"

#include "data/dataset.h"
#include "data/generated/generated.h"

namespace topknot::data {

namespace fs = std::filesystem;

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
  const Dataset& set = find_dataset_of<SpeechReader>(spec.name, "There is no speech");
  spec.params.refuse_unknown(spec.name);
  return std::get<SpeechReader>(set.reader).open(find_folder(set, folder), split);
}

}  // namespace topknot::data
