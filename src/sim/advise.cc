// SPDX-License-Identifier: Apache-2.0
#include "sim/advise.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "core/text.h"

namespace topknot::sim {
namespace {

/// How simple a scheme is to train with: what is exact first, then what is near it.
int simplicity(const Prediction& row) {
  if (row.scheme == "dense") return 0;
  if (row.scheme == "dense-bf16") return 1;
  if (row.scheme == "knot") return 2;
  if (row.scheme == kRounds) return 3;
  return 4;
}

bool is_dense(const Prediction& row) { return simplicity(row) < 2; }

/// Three digits, or all those before the point.
std::string digits(double x) {
  std::array<char, 64> text;
  const auto format = x < 100 ? std::chars_format::general : std::chars_format::fixed;
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), x, format, x < 100 ? 3 : 0);
  return {text.data(), end.ptr};
}

/// The simplest row that no other beats by more than what is worthwhile.
const Prediction& choose(const std::vector<Prediction>& fastest_first) {
  const double best = fastest_first.front().step_seconds;
  const Prediction* chosen = &fastest_first.front();
  for (const Prediction& row : fastest_first)
    if (row.step_seconds <= best * kWorthwhile && simplicity(row) < simplicity(*chosen))
      chosen = &row;
  return *chosen;
}

Line at_rate(const Line& line, double gbps) {
  Line other = line;
  other.network.between.bandwidth *= gbps / line.gbps;
  other.gbps = gbps;
  return other;
}

/// Up to which rate `candidate` beats dense by what is worthwhile; 0: at no rate.
double break_even(Predictor& quick, const Candidate& candidate, int ranks,
                  const Line& line) {
  const auto pays = [&](double gbps) {
    return quick.predict(candidate, ranks, at_rate(line, gbps)).speedup_vs_dense >=
           kWorthwhile;
  };
  double low = 1e-3;
  double high = kAnyRate;
  if (!pays(low)) return 0;
  if (pays(high)) return high;
  while (high / low > 1.01) {
    const double middle = std::sqrt(low * high);
    (pays(middle) ? low : high) = middle;
  }
  return low;
}

std::string sentence(const std::string& who, const Prediction& row) {
  std::string text = who + " takes " + time_text(row.step_seconds) + " a step";
  if (row.exposed_seconds < row.step_seconds)
    text += ", of which " + time_text(row.exposed_seconds) + " wait for the exchange";
  return text;
}

std::string explain(const Advice& advice, const Prediction& dense,
                    const Prediction& sparse) {
  const Prediction& choice = advice.choice;
  std::string text = "On " + std::to_string(choice.ranks) + " workers at " +
                     digits(choice.gbps) + " Gb/s, " + sentence("dense", dense) + ". ";
  const std::string at =
      sparse.scheme + " at a density of " + core::shortest(sparse.density);
  const std::string gain = digits(sparse.speedup_vs_dense) + " times as fast as dense";
  if (is_dense(choice)) {
    text += choice.scheme == "dense" ? "Use dense: the"
                                     : "Use dense-bf16, which takes " +
                                           time_text(choice.step_seconds) + ": the";
    text += " fastest sparse scheme, " + at + ", would be " + gain + ". ";
  } else {
    text += sentence(at, choice) + ": " + gain + ", since a rank sends " +
            digits(choice.bytes / 1e6) + " MB instead of " + digits(dense.bytes / 1e6) +
            ". ";
  }
  if (advice.break_even_gbps == 0)
    text += "At no bandwidth would " + sparse.scheme + " pay.";
  else if (advice.break_even_gbps >= kAnyRate)
    text += "Sparse exchange pays at any bandwidth: a dense sum is more work for a rank.";
  else
    text +=
        "Sparse exchange pays up to about " + digits(advice.break_even_gbps) + " Gb/s.";
  return text +
         " This is about time; docs/accuracy.md has what each scheme does to training.";
}

}  // namespace

std::string time_text(double seconds) {
  return seconds < 1 ? digits(1e3 * seconds) + " ms" : digits(seconds) + " s";
}

Advice advise(Predictor& predictor, Predictor& quick,
              std::span<const Candidate> candidates, int ranks, const Line& line) {
  Advice advice;
  for (const Candidate& candidate : candidates)
    advice.table.push_back(predictor.predict(candidate, ranks, line));
  const Prediction dense = predictor.predict(Candidate::of("dense", 1), ranks, line);
  if (std::ranges::none_of(advice.table,
                           [](const Prediction& row) { return row.scheme == "dense"; }))
    advice.table.push_back(dense);
  std::ranges::stable_sort(advice.table, {}, &Prediction::step_seconds);
  advice.choice = choose(advice.table);

  const auto is_sparse = [](const Prediction& row) { return !is_dense(row); };
  const auto fastest = std::ranges::find_if(advice.table, is_sparse);
  if (fastest == advice.table.end()) {
    advice.reason = "Only dense exchange was asked about.";
    return advice;
  }
  const Prediction sparse = is_dense(advice.choice) ? *fastest : advice.choice;
  const auto same = std::ranges::find_if(candidates, [&](const Candidate& candidate) {
    return candidate.scheme == sparse.scheme && candidate.density == sparse.density;
  });
  advice.break_even_gbps = break_even(quick, *same, ranks, line);
  advice.reason = explain(advice, dense, sparse);
  return advice;
}

}  // namespace topknot::sim
