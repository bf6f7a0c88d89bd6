// SPDX-License-Identifier: Apache-2.0
#include "topknot/catalog.h"

#include <algorithm>
#include <string>

#include "core/names.h"
#include "topknot/error.h"
#include "topknot/transports.h"

namespace topknot {

// The factories, each defined in the algorithm's own file.
namespace compressor {
#define COMPRESSOR(name, ...) \
  std::unique_ptr<Compressor> name(const Layout& layout, Params& params);
#include "catalog.def"
}  // namespace compressor
namespace collective {
#define COLLECTIVE(name, ...)                                               \
  std::unique_ptr<Collective> name(Transport& link, Compressor& compressor, \
                                   const Layout& layout, Params& params);
#include "catalog.def"
}  // namespace collective
namespace memory {
#define MEMORY(name, ...) \
  std::unique_ptr<Memory> name(const Layout& layout, Params& params);
#include "catalog.def"
}  // namespace memory

namespace {

constexpr CompressorEntry kCompressors[] = {
#define COMPRESSOR(name, summary, paper) {#name, summary, paper, compressor::name},
#include "catalog.def"
};
constexpr CollectiveEntry kCollectives[] = {
#define COLLECTIVE(name, summary, paper) {#name, summary, paper, collective::name},
#include "catalog.def"
};
constexpr Cost kCosts[] = {
#define COST(...) {__VA_ARGS__},
#include "catalog.def"
};
constexpr MemoryEntry kMemories[] = {
#define MEMORY(name, summary, paper) {#name, summary, paper, memory::name},
#include "catalog.def"
};
constexpr Scheme kSchemes[] = {
#define SCHEME(...) {__VA_ARGS__},
#include "catalog.def"
};

struct Refused {
  std::string_view collective;
  std::string_view compressor;
  std::string_view reason;
};
constexpr Refused kRefused[] = {
#define REFUSED(...) {__VA_ARGS__},
#include "catalog.def"
};

struct Shared {
  std::string_view collective;
  std::string_view compressor;
  std::string_view parameter;
};
constexpr Shared kShared[] = {
#define SHARED(...) {__VA_ARGS__},
#include "catalog.def"
};

template <typename Entry>
const Entry& find(std::span<const Entry> table, std::string_view kind,
                  std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(), [name](const Entry& line) {
    return core::same_name(line.name, name);
  });
  if (found != table.end()) return *found;
  std::vector<std::string> names;
  for (const Entry& line : table) names.emplace_back(line.name);
  throw ConfigError("There is no " + std::string(kind) + " named " + std::string(name) +
                    core::suggestion(name, names) + ". `topknot list` has all.");
}

/// The part that `text` names, with the catalog's spelling.
template <typename Entry>
Spec parse_part(std::span<const Entry> table, std::string_view kind,
                std::string_view text) {
  Spec spec = Spec::parse(text);
  spec.name = find(table, kind, spec.name).name;
  return spec;
}

/// Gives `name` this value, whatever it had.
void replace(Params& params, std::string_view name, std::string_view value) {
  Params made;
  made.give(name, value);
  const std::string before = params.str();
  for (std::string_view rest = before; !rest.empty();) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    made.give(item.substr(0, item.find('=')), item.substr(item.find('=') + 1));
  }
  params = made;
}

bool has_parameter(const std::vector<Params::Declaration>& declared,
                   std::string_view name) {
  return std::any_of(declared.begin(), declared.end(),
                     [name](const Params::Declaration& one) { return one.name == name; });
}

/// Selects nothing; for finding out what a collective's parameters are.
class NoCompressor final : public Compressor {
 public:
  bool select(std::span<float>, std::span<float>, std::size_t, Sparse& out) override {
    out.clear();
    return true;
  }
};

}  // namespace

std::span<const CollectiveEntry> collectives() { return kCollectives; }
std::span<const CompressorEntry> compressors() { return kCompressors; }
std::span<const MemoryEntry> memories() { return kMemories; }
std::span<const Scheme> schemes() { return kSchemes; }

const Scheme& find_scheme(std::string_view name) {
  if (Spec::parse(name).name == kAutoScheme)
    throw ConfigError(
        "The scheme auto is decided where a run starts: `topknot train --scheme auto`, "
        "and "
        "attach(scheme=\"auto\") in Python; here, name one of `topknot list`.");
  return find(schemes(), "scheme", Spec::parse(name).name);
}

SchemeParts parse_scheme(std::string_view text) {
  const Spec spec = Spec::parse(text);
  const Scheme& scheme = find_scheme(spec.name);
  SchemeParts parts{Spec::parse(scheme.memory), Spec::parse(scheme.compressor),
                    Spec::parse(scheme.collective), Spec::parse(scheme.schedule)};
  const std::pair<Spec*, std::vector<Params::Declaration>> owners[] = {
      {&parts.collective, collective_parameters(parts.collective.name)},
      {&parts.compressor, compressor_parameters(parts.compressor.name)},
      {&parts.memory, memory_parameters(parts.memory.name)}};
  Params given = spec.params;  // reading is declaring: what no part reads is refused
  for (const auto& [part, declared] : owners)
    for (const Params::Declaration& one : declared) {
      const std::string* const value = given.given(one.name);
      const bool first = !has_parameter(given.declared(), one.name);
      given.text(one.name, "", "");
      if (value != nullptr && first) replace(part->params, one.name, *value);
    }
  given.refuse_unknown("The scheme " + std::string(scheme.name));
  return parts;
}

Spec parse_collective(std::string_view text) {
  return parse_part(collectives(), "collective", text);
}
Spec parse_compressor(std::string_view text) {
  return parse_part(compressors(), "compressor", text);
}
Spec parse_memory(std::string_view text) {
  return parse_part(memories(), "memory", text);
}

const Cost& cost_of(std::string_view collective) {
  for (const Cost& cost : kCosts)
    if (cost.collective == collective) return cost;
  throw ContractError("catalog.def has no COST of " + std::string(collective));
}

std::string_view default_compressor(std::string_view collective) {
  for (const Scheme& scheme : schemes())
    if (scheme.name == collective) return scheme.compressor;
  return "topk";
}

void check_pair(const Spec& compressor, const Spec& collective) {
  for (const Refused& line : kRefused) {
    const bool any = line.compressor == "*" && compressor.name != "topk";
    if (line.collective != collective.name) continue;
    if (!any && line.compressor != compressor.name) continue;
    throw ConfigError("The collective " + collective.name +
                      " cannot work with the compressor " + compressor.name + ": it " +
                      std::string(line.reason) + ". Leave the compressor out, or take " +
                      compressor.name + " with the collective knot.");
  }
}

Spec with_shared(Spec compressor, const Spec& collective) {
  for (const Shared& line : kShared) {
    if (line.collective != collective.name || line.compressor != compressor.name)
      continue;
    if (const std::string* const value = collective.params.given(line.parameter))
      compressor.params.give(line.parameter, *value);
  }
  return compressor;
}

std::unique_ptr<Collective> make_collective(const Spec& spec, Transport& link,
                                            Compressor& compressor,
                                            const Layout& layout) {
  check_length(layout.size());
  Params params = spec.params;
  auto made =
      find(collectives(), "collective", spec.name).make(link, compressor, layout, params);
  params.refuse_unknown(spec.name);
  return made;
}

std::unique_ptr<Compressor> make_compressor(const Spec& spec, const Layout& layout) {
  check_length(layout.size());
  Params params = spec.params;
  auto made = find(compressors(), "compressor", spec.name).make(layout, params);
  params.refuse_unknown(spec.name);
  return made;
}

std::unique_ptr<Memory> make_memory(const Spec& spec, const Layout& layout) {
  check_length(layout.size());
  Params params = spec.params;
  auto made = find(memories(), "memory", spec.name).make(layout, params);
  params.refuse_unknown(spec.name);
  return made;
}

std::vector<Params::Declaration> collective_parameters(std::string_view name) {
  Params params;
  NoCompressor compressor;
  const auto alone = make_inproc(1);
  find(collectives(), "collective", name)
      .make(*alone[0], compressor, Layout::flat(1), params);
  return params.declared();
}

std::vector<Params::Declaration> compressor_parameters(std::string_view name) {
  Params params;
  find(compressors(), "compressor", name).make(Layout::flat(1), params);
  return params.declared();
}

std::vector<Params::Declaration> memory_parameters(std::string_view name) {
  Params params;
  find(memories(), "memory", name).make(Layout::flat(1), params);
  return params.declared();
}

}  // namespace topknot
