// SPDX-License-Identifier: Apache-2.0
//
// Any floats through every compressor of the catalog, step after step with error
// feedback. The first byte says which compressor. Positions increase, values are those of
// the vector, the fold is that of a plain addition, and the count is as promised.
#include <cmath>
#include <iterator>
#include <memory>
#include <string>

#include "compressors/promises.h"
#include "core/naive.h"
#include "fuzz/input.h"
#include "topknot/compressor.h"
#include "topknot/layout.h"
#include "topknot/params.h"

// The factories of the catalog without the rest of it, which no compressor needs.
namespace topknot::compressor {
#define COMPRESSOR(name, summary, paper) \
  std::unique_ptr<Compressor> name(const Layout&, Params&);
#include "catalog.def"
}  // namespace topknot::compressor

namespace {

using namespace topknot;
using topknot::fuzz::Input;
using topknot::fuzz::require;
using topknot::testing::same_bits;

struct Factory {
  std::string_view name;
  std::unique_ptr<Compressor> (*make)(const Layout&, Params&);
};

constexpr Factory kFactories[] = {
#define COMPRESSOR(name, summary, paper) {#name, compressor::name},
#include "catalog.def"
};

// Other ways of theirs that the promise holds for as well.
constexpr std::string_view kVariants[] = {
    "adtopk:interleave=0",
    "adtopk_threshold:warm=1,steps=4",
    "chunked:chunk=64",
    "dgc:sample=0.1",
    "dgc:spare=0,sample=1",
    "gaussiank:corrections=0",
    "redsync:method=trimmed",
    "reuse:workload=vgg",
    "reuse:workload=bert",
    "reuse:tau_prime=1",
    "sidco:dist=gamma",
    "sidco:dist=gpareto",
    "sidco:dist=gamma,stages=4",
    "sidco:dist=exp,stages=9",
    "sidco:dist=gpareto,stages=32",
};

Spec spec_of(Input& input) {
  const std::size_t which = input.byte() % (std::size(kFactories) + std::size(kVariants));
  if (which < std::size(kVariants)) return Spec::parse(kVariants[which]);
  return Spec::parse(kFactories[which - std::size(kVariants)].name);
}

std::unique_ptr<Compressor> make(Spec spec, std::size_t n) {
  for (const Factory& factory : kFactories)
    if (factory.name == spec.name) return factory.make(Layout::flat(n), spec.params);
  std::abort();
}

void check(const std::string& name, std::span<const float> residual, std::size_t k,
           const Sparse& out) {
  require(out.index.size() == out.value.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    require(out.index[i] < residual.size() &&
            (i == 0 || out.index[i - 1] < out.index[i]));
    require(
        same_bits(residual.subspan(out.index[i], 1), std::span(out.value).subspan(i, 1)));
  }
  const topknot::testing::CountPromise* promise = topknot::testing::promise_of(name);
  require(promise != nullptr);
  k = std::min(k, residual.size());
  require(out.size() >= promise->least(k, residual.size()));
  require(out.size() <= promise->most(k, residual.size()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input({data, size});
  const Spec spec = spec_of(input);
  std::vector<float> residual = fuzz::finite_floats(input, 3000);
  const std::unique_ptr<Compressor> compressor = make(spec, residual.size());
  const std::size_t often = 1 + input.byte() % 6;
  std::vector<float> grad;
  Sparse out;
  for (std::size_t step = 0; step < often; ++step) {
    const std::size_t k = input.number() % (residual.size() + 2);
    if (step > 0) {
      grad = fuzz::floats(input, residual.size());
      if (!grad.empty()) grad.resize(residual.size());
    }
    const std::vector<float> before = residual;
    std::vector<float> sum = residual;
    for (std::size_t i = 0; i < grad.size(); ++i) sum[i] += grad[i];
    const bool finite =
        std::ranges::all_of(sum, [](float v) { return std::isfinite(v); });
    require(compressor->select(residual, grad, k, out) == finite);
    if (!finite) {
      require(out.empty() && same_bits(residual, before));
      continue;
    }
    require(same_bits(residual, sum));
    check(spec.name, residual, k, out);
    for (const std::uint32_t i : out.index) residual[i] = 0;
  }
  return 0;
}
