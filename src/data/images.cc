// SPDX-License-Identifier: Apache-2.0
#include "data/images.h"

#include "data/readers.h"
#include "data/sets.h"
#include "topknot/error.h"

namespace topknot::data {
namespace {

struct Named {
  std::string_view name;
  Normalisation normalisation;
};

constexpr Named kNamed[] = {
    {"fashion-mnist", {{0.2860F}, {0.3530F}}},
    {"mnist", {{0.1307F}, {0.3081F}}},
    {"cifar10", {{0.4914F, 0.4822F, 0.4465F}, {0.2470F, 0.2435F, 0.2616F}}},
    {"cifar100", {{0.5071F, 0.4865F, 0.4409F}, {0.2673F, 0.2564F, 0.2762F}}},
    {"imagenet", {{0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F}}},
    {"generated", {{0.5F, 0.5F, 0.5F}, {0.16F, 0.16F, 0.16F}}},
};

const Named& find_named(std::string_view name) {
  std::vector<std::string> names;
  for (const Named& one : kNamed) {
    if (one.name == name) return one;
    names.emplace_back(one.name);
  }
  throw ConfigError("There is no set of images " + std::string(name) + "; nearest is " +
                    nearest(name, names) + ".");
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
  find_named(spec.name);
  std::unique_ptr<Images> images;
  if (spec.name == "generated") {
    images = make_images(split, spec.params);
    spec.params.refuse_unknown(spec.name);
    return images;
  }
  const bool parameters = spec.name == "imagenet";
  if (!parameters) spec.params.refuse_unknown(spec.name);
  const std::filesystem::path at = find_folder(find_set(spec.name), folder);
  if (spec.name == "cifar10") return open_cifar10(at, split);
  if (spec.name == "cifar100") return open_cifar100(at, split);
  if (!parameters) return open_idx(at, split);
  images = open_folders(at, split, spec.params);
  spec.params.refuse_unknown(spec.name);
  return images;
}

Normalisation normalisation(std::string_view name) {
  return find_named(name.substr(0, name.find(':'))).normalisation;
}

}  // namespace topknot::data
