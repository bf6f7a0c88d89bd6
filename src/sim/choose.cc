// SPDX-License-Identifier: Apache-2.0
#include "sim/choose.h"

#include <algorithm>
#include <memory>

#include "engine/bucket.h"
#include "sim/advise.h"
#include "sim/gradient.h"
#include "sim/predict.h"
#include "transports/control_channel.h"

namespace topknot::sim {
namespace {

constexpr std::uint64_t kLongest = 1 << 22;  // coordinates that are tried
constexpr std::uint64_t kShortest = 1 << 10;
constexpr int kMostTries = 5;
constexpr int kFewestTries = 2;
constexpr double kEnoughSeconds = 0.5;  // of tries at one length
constexpr double kLongestTry = 0.5;     // seconds of one dense exchange, about

/// The slowest rank's, exactly the same on all.
double slowest(ControlChannel& control, double x) {
  double most = x;
  for (const auto& of_rank : control.gather(std::vector<double>{x}))
    most = std::max(most, of_rank[0]);
  return most;
}

/// The times of one exchange, each way.
struct Times {
  double dense = 0;
  double sparse = 0;
};

/// One bucket of one way, that is exchanged again and again.
class Trial {
 public:
  Trial(Transport& link, int channel, const engine::Recipe& recipe, std::size_t n,
        double density)
      : bucket_(Layout::flat(n), recipe, link, channel),
        k_(std::max<std::size_t>(
            static_cast<std::size_t>(density * static_cast<double>(n)), 1)),
        density_(density),
        gradient_(n) {}

  /// Returns the seconds of one exchange of `source`, all ranks beginning at once.
  double step(Transport& link, ControlChannel& control, std::span<const float> source) {
    std::ranges::copy(source, gradient_.begin());
    control.barrier();
    const double start = link.now();
    bucket_.step(gradient_, k_, gradient_, 1, density_);
    return slowest(control, link.now() - start);
  }

 private:
  engine::Bucket bucket_;
  const std::size_t k_;
  const double density_;
  std::vector<float> gradient_;
};

// The two ways take turns, so that whatever else the machine does hits both. Their first step finds
// thresholds and allocates, and does not count.
Times try_both(Transport& link, ControlChannel& control, int channel,
               const SparseWay& way, std::size_t n) {
  std::vector<float> source(n);
  fill_gradient(source, link.rank(), 0, 0.5);
  Trial dense(link, channel, engine::Recipe::of("dense"), n, 1);
  Trial sparse(link, channel + 1, way.recipe, n, way.density);
  std::vector<double> of_dense;
  std::vector<double> of_sparse;
  double spent = 0;
  for (int i = 0; i <= kMostTries; ++i) {
    const double a = dense.step(link, control, source);
    const double b = sparse.step(link, control, source);
    if (i == 0) continue;
    of_dense.push_back(a);
    of_sparse.push_back(b);
    spent += a + b;
    if (i >= kFewestTries && spent > kEnoughSeconds) break;
  }
  const auto median = [](std::vector<double>& x) {
    const auto middle = x.begin() + static_cast<std::ptrdiff_t>((x.size() - 1) / 2);
    std::ranges::nth_element(x, middle);
    return *middle;
  };
  return {median(of_dense), median(of_sparse)};
}

/// A line through two measurements.
struct TimeLine {
  double n1, t1, n2, t2;
  double at(double n) const {
    if (n2 == n1) return t1 * std::max(n / n1, 1.0);
    const double slope = std::max((t2 - t1) / (n2 - n1), 0.0);
    return std::max(t1 + slope * (n - n1), 0.0);
  }
};

void measure(Transport& link, ControlChannel& control, const SparseWay& way,
             std::vector<ChosenBucket>& buckets) {
  const auto [least, most] = std::ranges::minmax(buckets, {}, &ChosenBucket::coordinates);
  std::uint64_t high = std::clamp(most.coordinates, kShortest, kLongest);
  const std::uint64_t low =
      std::clamp(least.coordinates, kShortest, std::max(high / 4, kShortest));
  const Times at_low = try_both(link, control, 1, way, low);
  // A slow network is not kept busy for long.
  const double bearable = kLongestTry * static_cast<double>(low) / at_low.dense;
  if (static_cast<double>(high) > bearable)
    high = std::max(static_cast<std::uint64_t>(bearable), std::min(4 * low, high));
  const Times at_high = high > low ? try_both(link, control, 3, way, high) : at_low;
  const auto n1 = static_cast<double>(low);
  const auto n2 = static_cast<double>(high);
  const TimeLine dense{n1, at_low.dense, n2, at_high.dense};
  const TimeLine sparse{n1, at_low.sparse, n2, at_high.sparse};
  for (ChosenBucket& bucket : buckets) {
    const auto n = static_cast<double>(bucket.coordinates);
    bucket.dense_seconds = dense.at(n);
    bucket.sparse_seconds = bucket.whole ? bucket.dense_seconds : sparse.at(n);
  }
}

double step_seconds(std::span<const ChosenBucket> buckets, double compute) {
  double all = 0;
  for (const ChosenBucket& bucket : buckets)
    all += static_cast<double>(bucket.coordinates);
  double done = 0;
  double end = 0;
  for (const ChosenBucket& bucket : buckets) {
    done += static_cast<double>(bucket.coordinates);
    end = std::max(end, ready_at(compute, done / all)) +
          (bucket.sparse ? bucket.sparse_seconds : bucket.dense_seconds);
  }
  return std::max(end, compute);
}

// Exact where it costs nothing.
void send_hidden_whole(Choice& choice) {
  for (ChosenBucket& bucket : choice.buckets) {
    if (!bucket.sparse) continue;
    bucket.sparse = false;
    if (step_seconds(choice.buckets, choice.compute) > choice.step) bucket.sparse = true;
  }
}

/// Rank 0's, bit for bit.
void agree(ControlChannel& control, Choice& choice) {
  std::vector<double> numbers{choice.compute, choice.dense_step, choice.step};
  for (const ChosenBucket& bucket : choice.buckets)
    numbers.insert(numbers.end(), {bucket.dense_seconds, bucket.sparse_seconds,
                                   bucket.sparse ? 1.0 : 0.0});
  const auto all = control.gather(numbers);
  std::size_t next = 0;
  const auto take = [&] { return all[0][next++]; };
  choice.compute = take();
  choice.dense_step = take();
  choice.step = take();
  for (ChosenBucket& bucket : choice.buckets) {
    bucket.dense_seconds = take();
    bucket.sparse_seconds = take();
    bucket.sparse = take() != 0;
  }
}

}  // namespace

bool Choice::any_sparse() const {
  return std::ranges::any_of(buckets, &ChosenBucket::sparse);
}

std::string Choice::reason(const std::string& sparse) const {
  const auto count = std::ranges::count_if(buckets, &ChosenBucket::sparse);
  const auto could = std::ranges::count(buckets, false, &ChosenBucket::whole);
  if (dense_step == 0) return "auto takes dense: one worker has nobody to exchange with.";
  if (count == 0)
    return "auto takes dense: a step takes " + time_text(dense_step) + " with it, and " +
           sparse + " would not make it shorter by 5 %.";
  return "auto takes " + sparse +
         (count == could ? ""
                         : " for " + std::to_string(count) + " of " +
                               std::to_string(could) + " buckets") +
         ": dense would take " + time_text(dense_step) + " a step, and this takes " +
         time_text(step) + ".";
}

Choice decide(std::vector<ChosenBucket> buckets, double compute, std::uint64_t every) {
  Choice choice{.buckets = std::move(buckets), .compute = compute};
  for (ChosenBucket& bucket : choice.buckets) bucket.sparse = false;
  choice.dense_step = choice.step = step_seconds(choice.buckets, compute);
  double in_rounds = 0;
  for (ChosenBucket& bucket : choice.buckets) {
    bucket.sparse = !bucket.whole && (every > 1 || bucket.sparse_seconds * kWorthwhile <
                                                       bucket.dense_seconds);
    in_rounds += bucket.sparse ? bucket.sparse_seconds : bucket.dense_seconds;
  }
  choice.step = every > 1 ? compute + in_rounds / static_cast<double>(every)
                          : step_seconds(choice.buckets, compute);
  if (choice.dense_step <= kWorthwhile * choice.step) {
    for (ChosenBucket& bucket : choice.buckets) bucket.sparse = false;
    choice.step = choice.dense_step;
  } else if (every == 1) {
    send_hidden_whole(choice);
  }
  return choice;
}

Choice choose(Transport& link, int channel, const SparseWay& way,
              std::vector<ChosenBucket> buckets, double compute) {
  if (link.size() == 1 || buckets.empty()) return {.buckets = std::move(buckets)};
  const std::unique_ptr<Transport> own = link.channel(channel);
  ControlChannel control(*own, 0);
  measure(*own, control, way, buckets);
  Choice choice = decide(std::move(buckets), slowest(control, compute), way.every);
  agree(control, choice);
  return choice;
}

}  // namespace topknot::sim
