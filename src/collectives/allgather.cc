// SPDX-License-Identifier: Apache-2.0
//
// Everyone's block to everyone. The blocks are coded once, by the rank they come from,
// and passed on as they are.
#include <algorithm>

#include "collectives/packet.h"
#include "collectives/primitives.h"

namespace topknot::collective {
namespace {}  // namespace

void Allgather::run(Courier& courier, SparseView mine, std::span<const Region> regions,
                    std::uint64_t most, std::vector<Sparse>& blocks,
                    std::vector<float>& error, Route route) {
  blocks.resize(at(courier.size()));
  if (courier.size() == 1) {
    blocks[0].clear();
    blocks[0].append(mine);
    error.clear();
    return;
  }
  courier.code(mine, regions[at(courier.rank())], Courier::kEveryone, pack_, error);
  run_coded(courier, pack_, regions, most, blocks, route);
}

void Allgather::run_coded(Courier& courier, Message& mine,
                          std::span<const Region> regions, std::uint64_t most,
                          std::vector<Sparse>& blocks, Route route) {
  blocks.resize(at(courier.size()));
  messages_.resize(at(courier.size()));
  limits_.clear();
  for (const Region& region : regions)
    limits_.push_back(courier.limit(most, region.size()));
  std::swap(messages_[at(courier.rank())], mine);
  pass_round(courier, limits_, route);
  for (int origin = 0; origin < courier.size(); ++origin)
    courier.read(messages_[at(origin)], origin, Courier::kEveryone, regions[at(origin)],
                 most, blocks[at(origin)]);
}

void Allgather::run_positions(Courier& courier, std::span<const std::uint32_t> mine,
                              std::span<const Region> regions, std::uint64_t most,
                              std::vector<std::vector<std::uint32_t>>& blocks,
                              Route route) {
  blocks.resize(at(courier.size()));
  blocks[at(courier.rank())].assign(mine.begin(), mine.end());
  if (courier.size() == 1) return;
  messages_.resize(at(courier.size()));
  limits_.clear();
  for (const Region& region : regions)
    limits_.push_back(courier.limit(most, region.size()));
  courier.code_positions(mine, regions[at(courier.rank())], Courier::kEveryone,
                         messages_[at(courier.rank())]);
  pass_round(courier, limits_, route);
  for (int origin = 0; origin < courier.size(); ++origin)
    if (origin != courier.rank())
      courier.read_positions(messages_[at(origin)], origin, Courier::kEveryone,
                             regions[at(origin)], most, blocks[at(origin)]);
}

void Allgather::run_dense(Courier& courier, std::span<const Region> regions,
                          std::span<float> x, std::vector<float>& error, Route route) {
  error.clear();
  if (courier.size() == 1) return;
  const auto piece = [&](int rank) {
    return x.subspan(regions[at(rank)].begin, regions[at(rank)].size());
  };
  messages_.resize(at(courier.size()));
  limits_.clear();
  for (const Region& region : regions)
    limits_.push_back(courier.limit(region.size(), region.size()));
  courier.code_dense(piece(courier.rank()), Courier::kEveryone,
                     messages_[at(courier.rank())], error);
  pass_round(courier, limits_, route);
  for (int origin = 0; origin < courier.size(); ++origin)
    courier.read_dense(messages_[at(origin)], origin, Courier::kEveryone, piece(origin),
                       /*add=*/false);
}

void Allgather::pass_round(Courier& courier, std::span<const std::size_t> limits,
                           Route route) {
  route == Route::direct ? ring(courier, limits) : bruck(courier, limits);
  for (const Message& message : messages_) courier.note_health(message);
}

void Allgather::ring(Courier& courier, std::span<const std::size_t> limits) {
  const int left = courier.neighbour(-1);
  const int right = courier.neighbour(+1);
  const int hops = courier.size() - 1;
  for (int hop = 1; hop <= hops; ++hop) {
    const int origin = courier.neighbour(-hop);
    courier.start_receive(left, messages_[at(origin)], limits[at(origin)]);
  }
  for (int hop = 0; hop < hops; ++hop) {
    courier.start_send(right, messages_[at(courier.neighbour(-hop))]);
    courier.finish_receive(left);
  }
  courier.flush();
}

// After the round with `gap` this rank holds the blocks of itself and of the 2*gap - 1
// ranks to its right.
void Allgather::bruck(Courier& courier, std::span<const std::size_t> limits) {
  std::vector<const Message*> outgoing;
  std::vector<Message*> incoming;
  for (int gap = 1; gap < courier.size(); gap *= 2) {
    const int count = std::min(gap, courier.size() - gap);
    outgoing.clear();
    incoming.clear();
    std::size_t limit = 0;
    for (int i = 0; i < count; ++i) {
      const int origin = courier.neighbour(gap + i);
      outgoing.push_back(&messages_[at(courier.neighbour(i))]);
      incoming.push_back(&messages_[at(origin)]);
      limit += limits[at(origin)];
    }
    const int from = courier.neighbour(gap);
    courier.start_receive(from, packed_, packet_limit(at(count), limit));
    pack(outgoing, pack_);
    courier.start_send(courier.neighbour(-gap), pack_);
    courier.finish_receive(from);
    unpack(courier, packed_, from, incoming);
    courier.flush();
  }
}

}  // namespace topknot::collective
