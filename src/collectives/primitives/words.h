// SPDX-License-Identifier: Apache-2.0
//
// Small exchanges of plain 32-bit words, by which the ranks agree on numbers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collectives/primitives/message_channel.h"

namespace topknot::collective {

/// counts[i] becomes its sum over the ranks, everywhere: recursive doubling,
/// ceil(log2 P) messages of all the counts and two more where P is not a power of two.
void sum_counts(MessageChannel& channel, std::span<std::uint32_t> counts);

/// Every rank gets every rank's `mine`, all equally long, one after another in rank
/// order, in ceil(log2 P) messages.
std::vector<std::uint32_t> gather_words(MessageChannel& channel,
                                        std::span<const std::uint32_t> mine);

/// Replaces `all` with every rank's `mine`, one after another in rank order. Rank r has
/// lengths[r] of them, and sends them to each of the others by itself: nobody waits for a
/// message that waits for another.
void gather_at_once(MessageChannel& channel, std::span<const std::uint32_t> mine,
                    std::span<const std::uint32_t> lengths,
                    std::vector<std::uint32_t>& all);

}  // namespace topknot::collective
