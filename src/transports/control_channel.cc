// SPDX-License-Identifier: Apache-2.0
//
// gather() is Bruck's allgather: in the round of `gap` = 1, 2, 4 ... a rank passes the parts
// that it holds to the rank `gap` to the left and gets as many from the rank `gap` to the
// right, so it holds those of itself and of the ranks to its right.

#include "transports/control_channel.h"

#include <algorithm>
#include <utility>

#include "core/plant.h"
#include "topknot/error.h"
#include "transports/control_message.h"
#include "transports/task_outcome.h"

namespace topknot {
namespace {

using namespace transports;
using Operation = ControlOperation;

std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

std::string name(int rank) { return "Rank " + std::to_string(rank); }

}  // namespace

ControlChannel::ControlChannel(Transport& link) : link_(link), count_(own_count_) {}

ControlChannel::ControlChannel(Transport& link, std::uint64_t& count)
    : link_(link), count_(count) {}

ControlChannel::ControlChannel(Transport& link, int id)
    : own_(link.channel(id)), link_(*own_), count_(own_count_) {}

template <typename Work>
auto ControlChannel::guarded(Work work) {
  try {
    return work();
  } catch (const LinkError& error) {
    link_.fail(error);
    link_.abandon();
    throw;
  }
}

// ---- messages

std::vector<Bytes> ControlChannel::gather_bytes(std::span<const std::byte> mine,
                                                std::size_t most) {
  const std::size_t ranks = at(size());
  std::vector<Bytes> held = {Bytes(mine.begin(), mine.end())};  // [i]: of rank() + i
  Bytes received;
  const ControlStamp stamp{Operation::gather, count_++};
  guarded([&] {
    for (std::size_t gap = 1; gap < ranks; gap *= 2) {
      const std::size_t count = std::min(gap, ranks - gap);
      const int left = static_cast<int>((at(rank()) + ranks - gap) % ranks);
      const int right = static_cast<int>((at(rank()) + gap) % ranks);
      const Pending receive =
          link_.recv(right, received, control_message_limit(count, most));
      const Pending send =
          link_.send_shared(left, std::make_shared<const Bytes>(
                                      pack_control(stamp, std::span(held).first(count))));
      link_.wait(receive);
      link_.wait(send);
      for (Bytes& part : unpack_control(received, stamp, count, right, rank()))
        held.push_back(std::move(part));
    }
  });
  if (!TOPKNOT_PLANT(gathered_in_wrong_rank_order))
    std::ranges::rotate(held, held.end() - rank());
  return held;
}

std::vector<Bytes> ControlChannel::to_rank_0(ControlOperation operation, Bytes mine,
                                             std::size_t most) {
  std::vector<Bytes> all(rank() == 0 ? at(size()) : 0);
  const ControlStamp stamp{operation, count_++};
  guarded([&] {
    if (rank() != 0)
      return link_.wait(link_.send_shared(
          0, std::make_shared<const Bytes>(pack_control(stamp, std::span(&mine, 1)))));
    std::vector<Pending> receives;
    for (int peer = 1; peer < size(); ++peer)
      receives.push_back(link_.recv(peer, all[at(peer)], control_message_limit(1, most)));
    for (const Pending message : receives) link_.wait(message);
    for (int peer = 1; peer < size(); ++peer)
      all[at(peer)] =
          std::move(unpack_control(all[at(peer)], stamp, 1, peer, rank()).front());
    all[0] = std::move(mine);
  });
  return all;
}

Bytes ControlChannel::from_root(Operation operation, int root, Bytes mine,
                                std::size_t most) {
  Bytes received;
  const ControlStamp stamp{operation, count_++};
  guarded([&] {
    if (rank() != root) {
      link_.wait(link_.recv(root, received, control_message_limit(1, most)));
      mine = std::move(unpack_control(received, stamp, 1, root, rank()).front());
      return;
    }
    const auto message =
        std::make_shared<const Bytes>(pack_control(stamp, std::span(&mine, 1)));
    std::vector<Pending> sends;
    for (int peer = 0; peer < size(); ++peer)
      if (peer != root) sends.push_back(link_.send_shared(peer, message));
    for (const Pending send : sends) link_.wait(send);
  });
  return mine;
}

std::vector<Bytes> ControlChannel::gather_bytes_at_0(std::span<const std::byte> mine,
                                                     std::size_t most) {
  return to_rank_0(Operation::gather_at_0, {mine.begin(), mine.end()}, most);
}

Bytes ControlChannel::broadcast(int root, std::span<const std::byte> mine,
                                std::size_t most) {
  return from_root(Operation::broadcast, root, {mine.begin(), mine.end()}, most);
}

void ControlChannel::barrier() { gather_bytes({}); }

// ---- values

void ControlChannel::require_equal_lengths(const std::vector<Bytes>& all) {
  guarded([&] {
    for (std::size_t rank = 0; rank < all.size(); ++rank)
      if (all[rank].size() != all[0].size())
        throw DisagreementError(static_cast<int>(rank),
                                "length of a gather is " + std::to_string(all[0].size()) +
                                    " bytes on rank 0 but " +
                                    std::to_string(all[rank].size()) + " on rank " +
                                    std::to_string(rank));
  });
}

void ControlChannel::require_length(std::size_t bytes, std::size_t expected, int from) {
  guarded([&] {
    if (bytes != expected)
      throw LinkError(from, name(from) + " sent " + std::to_string(bytes) +
                                " bytes where " + std::to_string(expected) +
                                " were expected.");
  });
}

void ControlChannel::require_outcome(const Bytes& outcome, int from) {
  guarded([&] {
    if (!is_outcome(outcome))
      throw LinkError(from,
                      name(from) + " sent the outcome of a task that cannot be read.");
  });
}

std::vector<double> ControlChannel::sum(const std::vector<double>& mine) {
  std::vector<double> total(mine.size());
  for (const std::vector<double>& one : gather(mine))
    for (std::size_t i = 0; i < total.size(); ++i) total[i] += one[i];
  return total;
}

void ControlChannel::average(std::span<float> x) {
  if (size() == 1) return;
  const auto all = gather(std::vector<float>(x.begin(), x.end()));
  std::ranges::fill(x, 0.0F);
  for (const std::vector<float>& one : all)
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += one[i];
  for (float& value : x) value /= static_cast<float>(size());
}

// ---- tasks that may fail

Bytes ControlChannel::all_or_none(
    const std::function<Bytes()>& task,
    const std::function<Bytes(const std::vector<Bytes>&)>& conclude,
    const std::function<void()>& undo) {
  std::vector<Bytes> all = to_rank_0(Operation::outcome, attempt(task), 1 + kMostBytes);
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    require_outcome(all[rank], static_cast<int>(rank));
  return decided_by_rank_0([&] {
    Bytes decision;
    if (auto failure = first_failure(all)) {
      decision = std::move(*failure);
    } else {
      for (Bytes& outcome : all) outcome.erase(outcome.begin());
      decision = attempt([&] { return conclude(all); });
    }
    if (!is_ok(decision)) {
      try {
        undo();
      } catch (const std::exception&) {  // the others wait for the decision
      }
    }
    return decision;
  });
}

void ControlChannel::all_or_none(const std::function<void()>& task) {
  all_or_none([&] { return task(), Bytes(); }, [](const auto&) { return Bytes(); });
}

Bytes ControlChannel::from_rank_0(const std::function<Bytes()>& task) {
  return decided_by_rank_0([&] { return attempt(task); });
}

Bytes ControlChannel::decided_by_rank_0(const std::function<Bytes()>& decide) {
  const Bytes decision =
      from_root(Operation::decision, 0, rank() == 0 ? decide() : Bytes(), 1 + kMostBytes);
  require_outcome(decision, 0);
  return value_or_throw(decision);
}

void ControlChannel::on_rank_0(const std::function<void()>& task) {
  from_rank_0([&] { return task(), Bytes(); });
}

// ---- texts

Bytes ControlChannel::bytes_of_text(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string ControlChannel::text_in(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace topknot
