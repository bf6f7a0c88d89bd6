// SPDX-License-Identifier: Apache-2.0
//
// Any floats through every selection of the core, each held to the naive one. The
// first byte says which.
#include <cmath>
#include <map>

#include "core/at_most.h"
#include "core/magnitudes.h"
#include "core/merge.h"
#include "core/naive.h"
#include "core/quantile.h"
#include "core/rows.h"
#include "core/select.h"
#include "core/shortlist.h"
#include "core/sweep.h"
#include "fuzz/input.h"

namespace {

using namespace topknot;
using namespace topknot::core;
using topknot::fuzz::finite_floats;
using topknot::fuzz::floats;
using topknot::fuzz::Input;
using topknot::fuzz::require;
using topknot::testing::Ranking;
using topknot::testing::same_bits;

constexpr std::size_t kLongest = 5000;

bool finite(std::span<const float> x) {
  return std::ranges::all_of(x, [](float v) { return std::isfinite(v); });
}

Sparse all_of(std::span<const float> x) {
  Sparse all;
  for (std::size_t i = 0; i < x.size(); ++i)
    all.push_back(static_cast<std::uint32_t>(i), x[i]);
  return all;
}

std::vector<float> sum_of(std::span<const float> a, std::span<const float> b) {
  std::vector<float> sum(a.begin(), a.end());
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) sum[i] += b[i];
  return sum;
}

// A gradient of the same length, repeated where the input says less; or none.
std::vector<float> gradient(Input& input, std::size_t n) {
  std::vector<float> grad = finite_floats(input, n);
  if (grad.empty()) return grad;
  const std::size_t said = grad.size();
  grad.resize(n);
  for (std::size_t i = said; i < n; ++i) grad[i] = grad[i - said];
  return grad;
}

float threshold_of(Input& input, const Ranking& ranking) {
  if (ranking.size() == 0 || input.byte() % 4 == 0) return std::abs(input.bits());
  const float at = ranking.magnitude_at(input.number() % ranking.size());
  const std::uint8_t side = input.byte() % 3;
  return side == 0 ? at : std::nextafter(at, side == 1 ? 0.0F : INFINITY);
}

void check_keep_largest(Input& input) {
  const std::vector<float> x = floats(input, kLongest);
  const Ranking ranking(x);
  for (int i = 0; i < 3; ++i) {
    const std::size_t k = input.number() % (x.size() + 2);
    Sparse got = all_of(x);
    keep_largest(got, k);
    require(same_bits(got, ranking.largest(k)));
  }
}

void check_exact(Input& input) {
  std::vector<float> residual = finite_floats(input, kLongest);
  ExactTopK top;
  Sparse out;
  for (int step = 0; step < 3; ++step) {
    const std::size_t k = input.number() % (residual.size() + 2);
    std::vector<float> grad = gradient(input, residual.size());
    const std::vector<float> before = residual;
    const std::vector<float> sum = sum_of(residual, grad);
    const bool fine = top.select(residual, grad, k, out);
    require(fine == finite(sum));
    if (!fine) return require(out.empty() && same_bits(residual, before));
    require(same_bits(residual, sum));
    require(grad.empty() || same_bits(grad, before));
    require(same_bits(out, Ranking(sum).largest(k)));
    core::erase(out.index, residual);
  }
}

void check_fold_and_select(Input& input) {
  std::vector<float> residual = floats(input, kLongest);
  std::vector<float> grad = gradient(input, residual.size());
  const std::vector<float> before = residual;
  const std::vector<float> sum = sum_of(residual, grad);
  const float threshold = threshold_of(input, Ranking(sum));
  Sparse want;
  for (std::size_t i = 0; i < sum.size(); ++i)
    if (std::abs(sum[i]) >= threshold)
      want.push_back(static_cast<std::uint32_t>(i), sum[i]);
  require(count_at_least(sum, threshold) == want.size());
  Sparse out;
  const bool fine = fold_and_select(residual, grad, threshold, out);
  require(fine == finite(sum));
  if (!fine) return require(out.empty() && same_bits(residual, before));
  require(same_bits(residual, sum) && same_bits(out, want));
}

void check_at_most(Input& input) {
  std::vector<float> residual = finite_floats(input, kLongest);
  const Ranking ranking(residual);
  const float threshold = threshold_of(input, ranking);
  const std::size_t most = input.number() % (residual.size() + 2);
  const std::size_t k = input.number() % (most + 1);
  Sparse out;
  require(fold_and_select_at_most(residual, {}, threshold, k, most, out));
  const std::size_t reaching = std::isnan(threshold) ? 0 : ranking.reaching(threshold);
  require(same_bits(out, ranking.largest(reaching > most ? k : reaching)));
  if (!out.empty())
    require(smallest_magnitude(out.value) == ranking.magnitude_at(out.size() - 1));
}

void check_shortlist(Input& input) {
  Shortlist list;
  Sparse pairs;
  for (int step = 0; step < 3; ++step) {
    std::vector<float> residual = finite_floats(input, kLongest);
    const Ranking ranking(residual);
    const std::size_t k = std::min<std::size_t>(input.number(), residual.size());
    std::size_t seen = 0;
    require(list.fold(residual, {}, k, pairs, [&](std::span<const float> block) {
      require(same_bits(block, std::span(residual).subspan(seen, block.size())));
      seen += block.size();
    }));
    require(seen == residual.size());
    require(pairs.size() >= std::min(2 * k + 1, residual.size()));
    const float threshold = threshold_of(input, ranking);
    const std::size_t count = count_at_least(residual, threshold);
    const std::size_t listed = count_at_least(pairs.value, threshold);
    require(count <= 2 * k ? listed == count : listed > 2 * k);
    if (count <= 2 * k && input.byte() % 2 == 0) {
      list.cut(threshold, pairs);
      require(same_bits(pairs, ranking.largest(count)));
    } else {
      const float smallest = list.cut_to(k, pairs);
      require(same_bits(pairs, ranking.largest(k)));
      require(smallest == (k == 0 ? 0 : ranking.magnitude_at(k - 1)));
    }
  }
}

// One tensor of [outer, length, stride], so that every row gives as many.
void check_rows(Input& input) {
  const std::uint64_t outer = 1 + input.byte() % 8;
  const std::uint64_t stride = 1 + input.byte() % 20;
  std::vector<float> residual = finite_floats(input, kLongest);
  const std::uint64_t length = residual.size() / (outer * stride);
  if (length == 0) return;
  residual.resize(outer * length * stride);
  Rows rows({{{"x", 0, {outer, length, stride}}}});
  Sparse out;
  for (int step = 0; step < 2; ++step) {
    const std::size_t k = input.number() % (residual.size() + 2);
    require(rows.select(residual, {}, k, out));
    require(out.size() == rows.count(k));
    const std::size_t each = rows.count(k) / (outer * stride);
    std::map<std::uint32_t, float> want;
    for (std::uint64_t o = 0; o < outer; ++o)
      for (std::uint64_t s = 0; s < stride; ++s) {
        std::vector<float> row;
        for (std::uint64_t i = 0; i < length; ++i)
          row.push_back(residual[(o * length + i) * stride + s]);
        for (const std::uint32_t i : Ranking(row).largest(each).index)
          want[static_cast<std::uint32_t>((o * length + i) * stride + s)] = row[i];
      }
    Sparse naive;
    for (const auto& [index, value] : want) naive.push_back(index, value);
    require(same_bits(out, naive));
  }
}

// Positions with gaps that the input says, the last of them near 2^32.
Sparse pairs_of(Input& input) {
  const std::vector<float> values = finite_floats(input, 300);
  const unsigned wide = input.byte() % 25;
  Sparse pairs;
  std::uint64_t next = input.number();
  for (const float v : values) {
    next += std::uint64_t{input.byte()} << (wide % 2 == 0 ? 0 : wide);
    if (next > 0xFFFFFFFF) break;
    pairs.push_back(static_cast<std::uint32_t>(next++), v);
  }
  return pairs;
}

void check_merge(Input& input) {
  const Sparse a = pairs_of(input);
  const Sparse b = pairs_of(input);
  std::map<std::uint32_t, float> sum;
  for (std::size_t i = 0; i < a.size(); ++i) sum[a.index[i]] = a.value[i];
  std::vector<std::uint32_t> both;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const auto [at, fresh] = sum.emplace(b.index[i], b.value[i]);
    if (fresh) continue;
    at->second += b.value[i];
    both.push_back(b.index[i]);
  }
  Sparse want;
  for (const auto& [index, value] : sum) want.push_back(index, value);
  Sparse out;
  add(a, b, out);
  require(same_bits(out, want));
  std::vector<std::uint32_t> shared;
  intersect(a.index, b.index, shared);
  require(shared == both);
  std::vector<std::uint64_t> cuts(b.index.begin(), b.index.end());
  std::vector<std::size_t> at;
  split(a.index, cuts, at);
  for (std::size_t j = 0; j < cuts.size(); ++j)
    require(at[j] == static_cast<std::size_t>(std::ranges::count_if(
                         a.index, [&](std::uint32_t i) { return i < cuts[j]; })));
}

void check_magnitudes(Input& input) {
  const std::vector<float> x = finite_floats(input, kLongest);
  const Ranking ranking(x);
  const float threshold = threshold_of(input, ranking);
  Histogram bins = {};
  Histogram naive = {};
  add_to_histogram(x, bins);
  for (const float v : x) ++naive[magnitude_bits(v) >> 20];
  require(bins == naive);
  std::vector<float> large;
  append_magnitudes(x, threshold, large);
  std::vector<float> want;
  for (const float v : x)
    if (std::abs(v) >= threshold) want.push_back(std::abs(v));
  require(same_bits(large, want));
  const Tail end = tail(large, threshold);
  require(end.count == static_cast<double>(want.size()));
  require(want.empty() || end.smallest == *std::ranges::min_element(want));
  LogSum logs;
  logs.add(x);
  double sum = 0;
  double logarithms = 0;
  std::size_t nonzero = 0;
  for (const float v : x) {
    const double magnitude = std::abs(static_cast<double>(v));
    sum += magnitude;
    if (v == 0) continue;
    logarithms += std::log(magnitude);
    ++nonzero;
  }
  require(logs.count() == nonzero);
  require(std::abs(logs.sum() - logarithms) <= 1e-9 * static_cast<double>(nonzero + 1));
  require(std::abs(sum_of_magnitudes(x) - sum) <= 1e-12 * sum);
}

// What has a share q above it, has about that share above it.
void check_quantile(Input& input) {
  double q = std::abs(static_cast<double>(input.bits()));
  if (!(q > 0 && q < 1)) q = 1 / (2 + std::abs(q));
  if (!(q > 0)) return;
  const double z = normal_quantile(q);
  require(std::abs(normal_tail(z) / q - 1) < 1e-9);
  const double mean = static_cast<double>(input.byte()) - 128;
  const double deviation = 1 + static_cast<double>(input.number());
  const double t = normal_magnitude_quantile(mean, deviation, q);
  require(std::abs((normal_tail((t - mean) / deviation) +
                    normal_tail((t + mean) / deviation)) /
                       q -
                   1) < 1e-6);
  const double shape = 1e-3 * static_cast<double>(1 + input.number() % 100'000'000);
  const double x = gamma_quantile(shape, q);
  require(x >= 0);
  if (x > 1e-290 && q > 1e-30) require(std::abs(gamma_tail(shape, x) / q - 1) < 1e-5);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr void (*kChecks[])(Input&) = {
      check_keep_largest, check_exact,      check_fold_and_select,
      check_at_most,      check_shortlist,  check_rows,
      check_merge,        check_magnitudes, check_quantile};
  Input input({data, size});
  kChecks[input.byte() % std::size(kChecks)](input);
  return 0;
}
