// SPDX-License-Identifier: Apache-2.0
#include "store/background_save.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "topknot/error.h"

namespace topknot::store {

void BackgroundSave::start(std::uint64_t step, Container shared, Container own,
                           const Origin& origin) {
  if (is_under_way())
    throw ContractError("A checkpoint is saved while another is being written.");
  if (link_.rank() != 0) shared = {};
  shared.keep_views();
  own.keep_views();
  most_bytes_ = std::max(most_bytes_, shared.bytes() + own.bytes());
  result_ = std::async(std::launch::async, [this, step, shared = std::move(shared),
                                            own = std::move(own), origin] {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point begin = Clock::now();
    folder_.save(link_, step, shared, own, origin);
    return Saved{step, std::chrono::duration<double>(Clock::now() - begin).count()};
  });
}

bool BackgroundSave::is_done() const {
  return is_under_way() &&
         result_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

BackgroundSave::Saved BackgroundSave::finish() {
  if (!is_under_way()) throw ContractError("No checkpoint is being written.");
  return std::exchange(result_, {}).get();
}

}  // namespace topknot::store
