// SPDX-License-Identifier: Apache-2.0
//
// The real trainer with a fault in one rank's memory, for the tests of the command: FLIP="1 20"
// turns a bit of rank 1's first weight after 20 steps. The linker hands calls of train() to the
// function here (--wrap), so that the command itself has no such switch.
#include <bit>
#include <cstdlib>
#include <sstream>
#include <utility>

#include "train/train.h"

// train::train as the compiler writes it.
#define TRAIN                                               \
  "_ZN7topknot5train5trainERNS_9TransportERKNS0_3JobERKNS0" \
  "_12TrainOptionsERNS0_8ObserverE"

namespace topknot::train {

Outcome real_train(Transport&, const Job&, const TrainOptions&,
                   Observer&) asm("__real_" TRAIN);
Outcome flipped_train(Transport&, const Job&, const TrainOptions&,
                      Observer&) asm("__wrap_" TRAIN);

Outcome flipped_train(Transport& link, const Job& job, const TrainOptions& options,
                      Observer& observer) {
  TrainOptions damaged = options;
  int rank = -1;
  std::uint64_t at = 0;
  const char* const flip = std::getenv("FLIP");
  std::istringstream(flip != nullptr ? flip : "") >> rank >> at;
  bool first = true;
  if (link.rank() == rank)
    damaged.testing_only_damage = [&](std::uint64_t step, const std::string&,
                                      std::span<float> weights) {
      if (step != at || !std::exchange(first, false)) return;
      weights[0] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(weights[0]) ^ 1U);
    };
  return real_train(link, job, damaged, observer);
}

}  // namespace topknot::train
