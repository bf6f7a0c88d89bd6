// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "topknot/collective.h"
#include "topknot/compressor.h"
#include "topknot/layout.h"
#include "topknot/memory.h"
#include "topknot/params.h"
#include "topknot/transport.h"

namespace topknot {

/// Lines of the catalog (src/catalog.def): what an algorithm is, and what makes one.
struct CompressorEntry {
  std::string_view name;
  std::string_view summary;
  std::string_view paper;
  std::unique_ptr<Compressor> (*make)(const Layout&, Params&);
};
struct CollectiveEntry {
  std::string_view name;
  std::string_view summary;
  std::string_view paper;
  std::unique_ptr<Collective> (*make)(Transport&, Compressor&, const Layout&, Params&);
};
struct MemoryEntry {
  std::string_view name;
  std::string_view summary;
  std::string_view paper;
  std::unique_ptr<Memory> (*make)(const Layout&, Params&);
};

/// What a collective costs a rank in one step, before coding: messages on the longest path, and
/// words of 32 bits that it sends. P ranks, k of n coordinates, G ranks to a node.
struct Cost {
  std::string_view collective;
  std::string_view messages;
  std::string_view words;
};

/// What a user names: a memory, a compressor and a collective with their parameters, as
/// their paper puts them together, and how the density changes over time there.
struct Scheme {
  std::string_view name;
  /// What `topknot train` exchanges by it unless told: "gradients", or "updates" by the
  /// memory that takes the optimizer's steps.
  std::string_view exchange;
  std::string_view memory;  ///< for gradients
  std::string_view compressor;
  std::string_view collective;
  std::string_view schedule;  ///< of the density, see make_schedule()
  std::string_view summary;
  std::string_view paper;
};

std::span<const CollectiveEntry> collectives();
std::span<const CompressorEntry> compressors();
std::span<const MemoryEntry> memories();
std::span<const Scheme> schemes();

/// Is no scheme but names the decision for one, which is made where a run starts.
inline constexpr std::string_view kAutoScheme = "auto";

/// Names are the same whether they have - or _. All of these throw ConfigError, with the
/// nearest name, when there is none such. Parameters behind the name of a scheme are left out.
const Scheme& find_scheme(std::string_view name);

/// The parts of "knot:values=bf16": a parameter goes to the collective where that has one of
/// its name, else to the compressor, else to the memory. Throws ConfigError where none has.
struct SchemeParts {
  Spec memory;
  Spec compressor;
  Spec collective;
  Spec schedule;
};
SchemeParts parse_scheme(std::string_view text);

/// A part with its parameters, "oktopk:tau=64", named as the catalog spells it.
Spec parse_collective(std::string_view text);
Spec parse_compressor(std::string_view text);
Spec parse_memory(std::string_view text);

/// Of the catalog's own spelling of a collective.
const Cost& cost_of(std::string_view collective);
/// The compressor that `collective` is paired with by the scheme of its own name, else
/// "topk".
std::string_view default_compressor(std::string_view collective);

/// Throws ConfigError, with the reason and what works instead, where `collective` cannot
/// do anything with `compressor`.
void check_pair(const Spec& compressor, const Spec& collective);

/// `compressor` with the parameters that `collective` decides for both, as oktopk does the
/// constants of the thresholds that it and reuse have. Those that `compressor` was given
/// itself stay.
Spec with_shared(Spec compressor, const Spec& collective);

/// The makers throw ConfigError for an unknown name (with the nearest) or parameter, and for
/// a layout that check_length() refuses.
/// `link` and `compressor` must outlive what is made with them.
std::unique_ptr<Collective> make_collective(const Spec& spec, Transport& link,
                                            Compressor& compressor, const Layout& layout);
std::unique_ptr<Compressor> make_compressor(const Spec& spec, const Layout& layout);
std::unique_ptr<Memory> make_memory(const Spec& spec, const Layout& layout);

/// The parameters that an algorithm reads, found by making one.
std::vector<Params::Declaration> collective_parameters(std::string_view name);
std::vector<Params::Declaration> compressor_parameters(std::string_view name);
std::vector<Params::Declaration> memory_parameters(std::string_view name);

}  // namespace topknot
