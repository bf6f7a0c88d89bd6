// SPDX-License-Identifier: Apache-2.0
//
// dense: the whole vector, summed round a ring. What every sparse collective must beat.
//
//   fold             the gradient into the residual
//   reduce-scatter   P-1 hops; each rank ends with the sum of one of P equal regions
//   allgather        P-1 hops; the regions' messages are passed on as they are
//   settle           clear the residual, but for what rounding took off
//
// Cost    2(P-1) S alpha + 2n(P-1)/P beta a rank, beta per 32-bit word, where a region is
//         cut into S segments of 2^20 values: one is added up while the next travels.
//         Half the words with bf16.
// Keeps   in the residual nothing with f32 values. With rounded ones each rank keeps the
//         error of each message it made: of the partial sums it passed on and of the region
//         it finished. A rank makes one message of each region, so its residual is as long
//         as the vector.
// Bound   every rank sends P-1 regions twice; exact, no cap is needed.
// Order   region j is added up along the ring from rank j to rank j-1: the same bits on
//         every rank and every transport, though not the order of the ranks.
// Paper   the bandwidth-optimal ring of Patarasuk and Yuan, JPDC 2009.
// Departs via=native hands the vector to the transport's own allreduce (MPI_Allreduce),
//         the yardstick of every speed table, where it has one. Without a residual (f32
//         values and an empty `residual`) the sum is made in the memory of `sum`.

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "collectives/primitives/cost.h"
#include "collectives/primitives/message_channel.h"
#include "collectives/primitives/regions.h"
#include "collectives/primitives/step_guard.h"
#include "topknot/catalog.h"
#include "topknot/error.h"

namespace topknot::collective {
namespace {

class Dense final : public Collective {
 public:
  Dense(Transport& link, Params& params)
      : channel_(link, "dense", params),
        native_(params.choice("via", {"own", "native"},
                              "our ring, or the transport's own allreduce") == "native"),
        segment_(static_cast<std::uint64_t>(
            params.integer("segment", 1 << 20, 1, 1 << 30,
                           "values in one message of the ring, about"))) {
    if (native_ && channel_.values() != core::Values::f32)
      throw ConfigError(
          "dense:via=native sums f32 values only; take via=own for others.");
  }

  Reduced reduce(ResidualVector& residual, std::span<float> grad, std::size_t k,
                 std::span<float> sum) override {
    channel_.begin(sum.size(), k);
    const std::span<float> x = load(residual, grad, sum);
    const bool no_residual = residual.size() == 0;
    const bool native = native_ && channel_.link().allreduce(x);
    if (native) {
      channel_.report_unless_finite(x);
    } else {
      cut(x.size());
      reduce_scatter(x);
      finish_own_region(x);
      allgather(x, /*read_at_once=*/no_residual);
    }
    if (!channel_.finite()) return guard_.undo(residual, grad);
    settle_all(residual.host(), x);
    write(x, /*whole=*/native || no_residual || channel_.size() == 1, sum);
    return {.count = sum.size(), .index = {}, .settled = {}};
  }

  bool keeps_residual() const noexcept override {
    return channel_.values() != core::Values::f32;
  }

  bool needs_host() const noexcept override { return true; }

  std::vector<CostPhase> cost(double n, double) const override {
    const Cost cost(channel_);
    const double region = n / channel_.size();
    const double segments =
        std::max(std::ceil(region / static_cast<double>(segment_)), 1.0);
    return {{2.0 * (channel_.size() - 1) * segments, segments,
             cost.values(region / segments)}};
  }

 private:
  std::span<float> region_of(std::span<float> x, int part) const {
    const Region region = equal_region(x.size(), channel_.size(), part);
    return x.subspan(region.begin, region.size());
  }

  // The vector that goes round: a copy, so that the residual stays whole until the end.
  std::span<float> load(ResidualVector& residual, std::span<float> grad,
                        std::span<float> sum) {
    if (residual.size() == 0) {
      if (keeps_residual() && !sum.empty())
        throw ContractError(
            "dense with rounded values keeps their errors: it needs a residual.");
      if (sum.data() != grad.data()) std::copy(grad.begin(), grad.end(), sum.begin());
      return sum;
    }
    guard_.fold(residual, grad);
    const std::span<const float> folded = residual.host();
    work_.assign(folded.begin(), folded.end());
    return work_;
  }

  // The regions in segments, so that one is added up and passed on
  // while the next is on the link. Every region has as many, whatever its own length.
  void cut(std::size_t n) {
    const std::uint64_t longest = equal_region(n, channel_.size(), 0).size();
    segments_ =
        static_cast<int>(std::max<std::uint64_t>((longest + segment_ - 1) / segment_, 1));
    sent_.resize(at(2 * segments_));
    received_.resize(at(segments_));
    messages_.resize(at(channel_.size() * segments_));
  }

  std::span<float> segment_of(std::span<float> x, int part, int segment) const {
    const std::span<float> region = region_of(x, part);
    const Region piece = equal_region(region.size(), segments_, segment);
    return region.subspan(piece.begin, piece.size());
  }

  static std::uint64_t offset_of(std::span<const float> segment,
                                 std::span<const float> x) {
    return static_cast<std::uint64_t>(segment.data() - x.data());
  }

  // Region j sets out from rank j and is complete when it has come to rank j-1. Once
  // passed on, a region of x holds the error that this rank made in passing it on.
  void reduce_scatter(std::span<float> x) {
    channel_.enter("reduce-scatter");
    const int hops = channel_.size() - 1;
    for (int s = 0; s < segments_ && hops > 0; ++s) expect_partial(x, 0, s);
    for (int s = 0; s < segments_ && hops > 0; ++s) pass_partial(x, 0, s);
    for (int hop = 0; hop < hops; ++hop)
      for (int s = 0; s < segments_; ++s) {
        channel_.finish_receive(channel_.neighbour(-1));
        const std::span<float> segment = segment_of(x, channel_.neighbour(-hop - 1), s);
        channel_.read_dense(received_[at(s)], channel_.neighbour(-1), channel_.rank(),
                            segment, /*add=*/true, offset_of(segment, x));
        if (hop + 1 == hops) continue;
        expect_partial(x, hop + 1, s);
        pass_partial(x, hop + 1, s);
      }
  }

  void expect_partial(std::span<float> x, int hop, int segment) {
    const std::size_t size = segment_of(x, channel_.neighbour(-hop - 1), segment).size();
    channel_.start_receive(channel_.neighbour(-1), received_[at(segment)],
                           channel_.limit(size, size));
  }

  // Two hops' messages may be on their way at once, never three.
  void pass_partial(std::span<float> x, int hop, int segment) {
    const std::span<float> outgoing = segment_of(x, channel_.neighbour(-hop), segment);
    Message& message = sent_[at(hop % 2 * segments_ + segment)];
    channel_.flush_but(at(2 * segments_ - 1));
    channel_.code_dense(outgoing, channel_.neighbour(+1), message, error_,
                        offset_of(outgoing, x));
    std::copy(error_.begin(), error_.end(), outgoing.begin());
    channel_.start_send(channel_.neighbour(+1), message);
  }

  void finish_own_region(std::span<float> x) {
    const int own = channel_.neighbour(+1);
    channel_.report_unless_finite(region_of(x, own));
    if (channel_.size() == 1) return;
    channel_.enter("allgather");
    for (int s = 0; s < segments_; ++s) {
      const std::span<float> segment = segment_of(x, own, s);
      channel_.code_dense(segment, MessageChannel::kEveryone,
                          finished(channel_.rank(), s), error_, offset_of(segment, x));
      std::copy(error_.begin(), error_.end(), segment.begin());
      expect_finished(x, 0, s);
      channel_.start_send(channel_.neighbour(+1), finished(channel_.rank(), s));
    }
  }

  // Passes the messages on as they are. They are read once the step is known to be finite on
  // every rank; where there is no residual to keep, at once.
  void allgather(std::span<float> x, bool read_at_once) {
    for (int hop = 0; hop < channel_.size() - 1; ++hop)
      for (int s = 0; s < segments_; ++s) {
        const int maker = channel_.neighbour(-hop - 1);
        channel_.finish_receive(channel_.neighbour(-1));
        channel_.note_nonfinite(finished(maker, s));
        if (hop + 2 < channel_.size()) {
          expect_finished(x, hop + 1, s);
          channel_.start_send(channel_.neighbour(+1), finished(maker, s));
        }
        if (read_at_once) read_finished(maker, s, x);
      }
    channel_.flush();
  }

  Message& finished(int maker, int segment) {
    return messages_[at(maker * segments_ + segment)];
  }

  void expect_finished(std::span<float> x, int hop, int segment) {
    const int maker = channel_.neighbour(-hop - 1);
    const std::size_t size = segment_of(x, (maker + 1) % channel_.size(), segment).size();
    channel_.start_receive(channel_.neighbour(-1), finished(maker, segment),
                           channel_.limit(size, size));
  }

  void read_finished(int maker, int segment, std::span<float> into) {
    const std::span<float> values =
        segment_of(into, (maker + 1) % channel_.size(), segment);
    channel_.read_dense(finished(maker, segment), maker, MessageChannel::kEveryone,
                        values,
                        /*add=*/false, offset_of(values, into));
  }

  void settle_all(std::span<float> residual, std::span<const float> x) const {
    if (residual.empty()) return;
    if (!keeps_residual() || channel_.size() == 1) {
      std::fill(residual.begin(), residual.end(), 0.0F);
    } else {
      std::copy(x.begin(), x.end(), residual.begin());
    }
  }

  void write(std::span<const float> x, bool whole, std::span<float> sum) {
    if (whole) {
      if (x.data() != sum.data()) std::copy(x.begin(), x.end(), sum.begin());
      return;
    }
    for (int maker = 0; maker < channel_.size(); ++maker)
      for (int s = 0; s < segments_; ++s) read_finished(maker, s, sum);
  }

  MessageChannel channel_;
  StepGuard guard_{channel_};
  const bool native_;
  const std::uint64_t segment_;
  std::vector<float> work_;
  std::vector<float> error_;
  int segments_ = 1;
  std::vector<Message> sent_;      // partial sums, by parity of the hop and segment
  std::vector<Message> received_;  // partial sums, by segment
  std::vector<Message> messages_;  // finished segments, by the rank that finished them
};

}  // namespace

std::unique_ptr<Collective> dense(Transport& link, Compressor&, const Layout&,
                                  Params& params) {
  return std::make_unique<Dense>(link, params);
}

}  // namespace topknot::collective
