// SPDX-License-Identifier: Apache-2.0
#include "data/images.h"

#include "core/names.h"
#include "data/dataset.h"
#include "data/generated/generated.h"

namespace topknot::data {
namespace {

constexpr Normalisation kGenerated{{0.5F, 0.5F, 0.5F}, {0.16F, 0.16F, 0.16F}};

const Dataset& find_images(std::string_view name) {
  std::vector<std::string> names;
  for (const Dataset& set : datasets()) {
    if (!std::holds_alternative<ImageReader>(set.reader)) continue;
    if (set.name == name) return set;
    names.emplace_back(set.name);
  }
  names.emplace_back("generated");
  throw ConfigError("There is no set of images " + std::string(name) +
                    core::suggestion(name, names) + ".");
}

}  // namespace

Images::~Images() = default;

void Images::read_part(std::size_t i, std::span<std::uint8_t> pixels,
                       core::Random& /*random*/) const {
  read(i, pixels);
}

std::unique_ptr<Images> open_images(std::string_view name,
                                    const std::filesystem::path& folder, Split split) {
  Spec spec = Spec::parse(name);
  if (spec.name == "generated") {
    std::unique_ptr<Images> images = make_images(split, spec.params);
    spec.params.refuse_unknown(spec.name);
    return images;
  }
  const Dataset& set = find_images(spec.name);
  const auto& reader = std::get<ImageReader>(set.reader);
  if (!reader.takes_parameters) spec.params.refuse_unknown(spec.name);
  std::unique_ptr<Images> images =
      reader.open(find_folder(set, folder), split, spec.params);
  spec.params.refuse_unknown(spec.name);
  return images;
}

Normalisation normalisation(std::string_view name) {
  name = name.substr(0, name.find(':'));
  if (name == "generated") return kGenerated;
  return std::get<ImageReader>(find_images(name).reader).normalisation;
}

}  // namespace topknot::data
