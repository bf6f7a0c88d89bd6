// SPDX-License-Identifier: Apache-2.0
//
// dense: the whole vector, summed round a ring. What every sparse collective must beat.
//
//   fold             the gradient into the debt
//   reduce-scatter   P-1 hops; each rank ends with the sum of one of P equal regions
//   allgather        P-1 hops; the regions' messages are passed on as they are
//   settle           nothing is owed, but what rounding took off
//
// Cost    2(P-1) alpha + 2n(P-1)/P beta a rank, beta per 32-bit word; half the words with
//         bf16.
// Owes    nothing with f32 values. With rounded ones each rank owes the error of each
//         message it made: of the partial sums it passed on and of the region it finished.
//         A rank makes one message of each region, so its debt is as long as the vector.
// Bound   every rank sends P-1 regions twice; exact, no cap is needed.
// Order   region j is added up along the ring from rank j to rank j-1: the same bits on
//         every rank and every transport, though not the order of the ranks.
// Paper   the bandwidth-optimal ring of Patarasuk and Yuan, JPDC 2009.
// Departs via=native hands the vector to the transport's own allreduce (MPI_Allreduce),
//         the yardstick of every speed table, where it has one. Without a debt (f32
//         values and an empty `acc`) the sum is made in the memory of `sum`.

#include <algorithm>
#include <memory>
#include <vector>

#include "collectives/primitives.h"
#include "topknot/catalog.h"
#include "topknot/error.h"

namespace topknot::collective {
namespace {

class Dense final : public Collective {
 public:
  Dense(Transport& link, Params& params)
      : courier_(link, "dense", params),
        native_(params.choice("via", {"own", "native"},
                              "our ring, or the transport's own allreduce") == "native") {
    if (native_ && courier_.values() != core::Values::f32)
      throw ConfigError(
          "dense:via=native sums f32 values only; take via=own for others.");
  }

  Reduced reduce(std::span<float> acc, std::span<const float> grad, std::size_t k,
                 std::span<float> sum) override {
    courier_.begin(sum.size(), k);
    const std::span<float> x = load(acc, grad, sum);
    const bool native = native_ && courier_.link().allreduce(x);
    if (native) {
      if (!all_finite(x)) courier_.report_sick();
    } else {
      reduce_scatter(x);
      finish_own_region(x);
      allgather(x.size());
    }
    if (!courier_.finite()) return courier_.undo(acc, grad);
    settle_all(acc, x);
    write(x, native, sum);
    return {.count = sum.size(), .index = {}, .paid = {}};
  }

  bool owes() const noexcept override { return courier_.values() != core::Values::f32; }

 private:
  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

  std::span<float> region_of(std::span<float> x, int part) const {
    const Region region = equal_region(x.size(), courier_.size(), part);
    return x.subspan(region.begin, region.size());
  }

  // The vector that goes round: a copy, so that the debt stays whole until the end.
  std::span<float> load(std::span<float> acc, std::span<const float> grad,
                        std::span<float> sum) {
    if (acc.empty()) {
      if (owes() && !sum.empty())
        throw ContractError("dense with rounded values owes something: acc is needed.");
      if (sum.data() != grad.data()) std::copy(grad.begin(), grad.end(), sum.begin());
      return sum;
    }
    courier_.fold(acc, grad);
    work_.assign(acc.begin(), acc.end());
    return work_;
  }

  // Region j sets out from rank j and is complete when it has come to rank j-1. Once
  // passed on, a region of x holds the error that this rank made in passing it on.
  void reduce_scatter(std::span<float> x) {
    courier_.enter("reduce-scatter");
    const int left = courier_.neighbour(-1);
    for (int hop = 0; hop < courier_.size() - 1; ++hop) {
      const std::span<float> outgoing = region_of(x, courier_.neighbour(-hop));
      const std::span<float> incoming = region_of(x, courier_.neighbour(-hop - 1));
      courier_.start_receive(left, received_,
                             courier_.limit(incoming.size(), incoming.size()));
      courier_.code_dense(outgoing, courier_.neighbour(+1), sent_, error_);
      std::copy(error_.begin(), error_.end(), outgoing.begin());
      courier_.start_send(courier_.neighbour(+1), sent_);
      courier_.finish_receive(left);
      courier_.read_dense(received_, left, courier_.rank(), incoming, /*add=*/true);
      courier_.flush();
    }
  }

  void finish_own_region(std::span<float> x) {
    const std::span<float> own = region_of(x, courier_.neighbour(+1));
    if (!all_finite(own)) courier_.report_sick();
    if (courier_.size() == 1) return;
    courier_.enter("allgather");
    messages_.resize(at(courier_.size()));
    courier_.code_dense(own, Courier::kEveryone, messages_[at(courier_.rank())], error_);
    std::copy(error_.begin(), error_.end(), own.begin());
  }

  // Only passes the messages on: they are read when everyone is known to be well.
  void allgather(std::size_t n) {
    const int left = courier_.neighbour(-1);
    for (int hop = 0; hop < courier_.size() - 1; ++hop) {
      const int incoming = courier_.neighbour(-hop - 1);
      const Region region = equal_region(n, courier_.size(), courier_.neighbour(-hop));
      courier_.start_receive(left, messages_[at(incoming)],
                             courier_.limit(region.size(), region.size()));
      courier_.start_send(courier_.neighbour(+1),
                          messages_[at(courier_.neighbour(-hop))]);
      courier_.finish_receive(left);
      courier_.note_health(messages_[at(incoming)]);
      courier_.flush();
    }
  }

  void settle_all(std::span<float> acc, std::span<const float> x) const {
    if (acc.empty()) return;
    if (!owes() || courier_.size() == 1) {
      std::fill(acc.begin(), acc.end(), 0.0F);
    } else {
      std::copy(x.begin(), x.end(), acc.begin());
    }
  }

  void write(std::span<const float> x, bool native, std::span<float> sum) {
    if (native || courier_.size() == 1) {
      if (x.data() != sum.data()) std::copy(x.begin(), x.end(), sum.begin());
      return;
    }
    for (int rank = 0; rank < courier_.size(); ++rank)
      courier_.read_dense(messages_[at(rank)], rank, Courier::kEveryone,
                          region_of(sum, (rank + 1) % courier_.size()), /*add=*/false);
  }

  Courier courier_;
  const bool native_;
  std::vector<float> work_;
  std::vector<float> error_;
  Message sent_;
  Message received_;
  std::vector<Message> messages_;  // finished regions, by the rank that finished them
};

}  // namespace

std::unique_ptr<Collective> dense(Transport& link, Compressor&, const Layout&,
                                  Params& params) {
  return std::make_unique<Dense>(link, params);
}

}  // namespace topknot::collective
