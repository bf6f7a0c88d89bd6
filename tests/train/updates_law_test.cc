// SPDX-License-Identifier: Apache-2.0
//
// The law over the whole of an exchange of updates, with == on numbers that f32 holds exactly:
//
//   sum of all ranks' own moves  =  ranks * move of the weights + sum of the residuals
//
// through clipping, settling, local steps, rounded values, and a state that is saved and loaded.
#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <vector>

#include "core/random.h"
#include "job/engine_options.h"
#include "ranks.h"
#include "topknot/state.h"
#include "train/replica.h"
#include "train/synchronizer.h"
#include "train/task.h"

namespace topknot::train {
namespace {

using Numbers = std::vector<double>;
constexpr double kRate = 0.25;
constexpr float kClippedTo = 8;

Job job_of(const std::string& collective, std::int64_t local_steps, double momentum) {
  const std::string text = "momentum=" + std::to_string(momentum);
  Job job;
  job.model = "mlp:hidden=6";
  job.data = "generated:classes=4,size=64,seed=3,side=8,noise=0";
  job.optimizer = "sgd:" + text;
  job.exchange = "updates";
  job.collective = collective;
  job.density = 0.1;
  job.dense_vectors = false;
  job.local_steps = local_steps;
  // On every step momentum is masked, which forgets a part of it on purpose.
  if (local_steps == 1) job.memory = "momentum:masking=0," + text;
  std::vector<std::string> notices;
  return prepared(job, notices);
}

/// One rank of a run whose gradients are drawn, not computed.
class Rank {
 public:
  Rank(const Job& job, Transport& link)
      : job_(job),
        task_(make_task(job, {link.rank(), link.size()})),
        replica_(task_->model(), link, engine_options(job, 0)),
        synchronizer_(make_synchronizer(job, *task_, replica_, link)),
        alone_(make_optimizer(Spec::parse(job.optimizer), replica_.sizes())),
        random_(100 + static_cast<std::uint64_t>(link.rank())) {
    for (std::size_t i = 0; i < replica_.size(); ++i)
      std::ranges::fill(replica_.weight(i), 0.0F);
    moves_ = weights();
  }

  void round() {
    std::vector<StepRecord> steps;
    for (std::int64_t i = 0; i < job_.local_steps; ++i) {
      synchronizer_->begin(kRate, /*opens_round=*/i == 0);
      draw();
      step_alone();
      synchronizer_->prepare_held();
      if (job_.local_steps == 1)
        for (std::size_t p = 0; p < replica_.size(); ++p) replica_.engine().ready(p);
      steps.emplace_back().lr = kRate;
      synchronizer_->finish(steps, /*closes_round=*/i + 1 == job_.local_steps);
      ASSERT_TRUE(steps.back().finite);
    }
  }

  void settle() { synchronizer_->settle(); }

  void save_and_load() {
    State state;
    replica_.engine().save(state);
    replica_.engine().load(state);
  }

  /// The sum of the moves that this rank's optimizer has asked for.
  const Numbers& moves() const { return moves_; }

  Numbers weights() {
    Numbers all;
    for (std::size_t i = 0; i < replica_.size(); ++i)
      all.insert(all.end(), replica_.weight(i).begin(), replica_.weight(i).end());
    return all;
  }

  Numbers residuals() {
    State state;
    replica_.engine().save(state);
    Numbers all;
    for (std::size_t i = 0; i < replica_.size(); ++i) {
      const auto& one = std::get<std::vector<float>>(
          state.values.at(replica_.tensor(i).name + "/memory.residual"));
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }

 private:
  // Whole numbers; or, to be clipped, two of 8 and two of -8, whose length is 16.
  void draw() {
    for (std::size_t i = 0; i < replica_.size(); ++i)
      for (float& g : replica_.gradient(i))
        g = job_.clip > 0 ? 0.0F : static_cast<float>(random_.uniform() * 33) - 16;
    for (std::size_t i = 0; i < replica_.size(); ++i)
      for (float& g : replica_.gradient(i)) g = std::floor(g);
    if (job_.clip == 0) return;
    const std::span<float> first = replica_.gradient(0);
    const auto at = static_cast<std::size_t>(random_.uniform() *
                                             static_cast<double>(first.size() - 4));
    for (std::size_t i = 0; i < 4; ++i) first[at + i] = i % 2 == 0 ? 8.0F : -8.0F;
  }

  void step_alone() {
    const float scale = job_.clip > 0 ? kClippedTo / 16 : 1;
    std::size_t at = 0;
    alone_->begin_step();
    for (std::size_t i = 0; i < replica_.size(); ++i) {
      std::vector<float> weight(replica_.weight(i).size());
      alone_->apply(i, weight, replica_.gradient(i), {.lr = kRate, .scale = scale});
      for (const float moved : weight) moves_[at++] -= moved;
    }
  }

  const Job& job_;
  std::unique_ptr<Task> task_;
  Replica replica_;
  std::unique_ptr<Synchronizer> synchronizer_;
  std::unique_ptr<Optimizer> alone_;
  core::Random random_;
  Numbers moves_;
};

/// `act` on every rank, and then the law, coordinate by coordinate.
template <typename Act>
void expect_law(int ranks, const Job& job, const Act& act) {
  std::mutex mutex;
  Numbers left;
  Numbers right;
  topknot::testing::run(ranks, [&](Transport& link) {
    Rank rank(job, link);
    act(rank);
    const std::scoped_lock lock(mutex);
    const Numbers weights = rank.weights();
    const Numbers residuals = rank.residuals();
    left.resize(weights.size());
    right.resize(weights.size());
    for (std::size_t i = 0; i < weights.size(); ++i) {
      left[i] += rank.moves()[i];
      right[i] += residuals[i] - weights[i];  // the weights began at zero
    }
  });
  EXPECT_EQ(left, right);
  EXPECT_NE(left, Numbers(left.size())) << "nothing moved";
}

constexpr int kRanks[] = {1, 2, 4, 8};  // by which a mean of whole numbers is exact
constexpr const char* kCollectives[] = {"knot",   "knot:values=i2", "knot:values=i8",
                                        "oktopk", "gtopk",          "topka"};

TEST(LawOfUpdates, HoldsOnEveryStepAndInRounds) {
  for (const char* collective : kCollectives)
    for (const int ranks : kRanks)
      for (const std::int64_t local_steps : {1, 3})
        for (const double momentum : {0.0, 0.5}) {
          SCOPED_TRACE(std::string(collective) + " on " + std::to_string(ranks));
          expect_law(ranks, job_of(collective, local_steps, momentum), [](Rank& rank) {
            for (int i = 0; i < 5; ++i) rank.round();
          });
        }
}

TEST(LawOfUpdates, HoldsWhenResidualsAreSettledAndSaved) {
  for (const char* collective : {"knot", "knot:values=i2"})
    for (const int ranks : kRanks)
      for (const std::int64_t local_steps : {1, 3})
        expect_law(ranks, job_of(collective, local_steps, 0.5), [](Rank& rank) {
          rank.round();
          rank.save_and_load();
          rank.round();
          rank.settle();
          EXPECT_EQ(rank.residuals(), Numbers(rank.residuals().size()));
          rank.round();
        });
}

TEST(LawOfUpdates, HoldsForGradientsThatAreClipped) {
  for (const int ranks : {1, 4})  // whose roots are whole, too
    for (const std::int64_t local_steps : {1, 3}) {
      Job job = job_of("knot", local_steps, 0.5);
      job.clip = kClippedTo / (ranks == 4 ? 2 : 1);
      expect_law(ranks, job, [](Rank& rank) {
        for (int i = 0; i < 5; ++i) rank.round();
      });
    }
}

}  // namespace
}  // namespace topknot::train
