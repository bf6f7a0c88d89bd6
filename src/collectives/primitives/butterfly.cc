// SPDX-License-Identifier: Apache-2.0
#include "collectives/primitives/butterfly.h"

#include <utility>

#include "core/merge.h"

namespace topknot::collective {

void Butterfly::run(MessageChannel& channel, const Subgroup& group, Region region,
                    std::size_t most, Sparse& held, DroppedValues& dropped) {
  const std::size_t limit = channel.limit(most, region.size());
  for (int bit = 1; bit < group.size(); bit *= 2) {
    const int partner = group.rank(group.place() ^ bit);
    channel.start_receive(partner, in_, limit);
    channel.code(held, region, partner, out_, error_);
    channel.start_send(partner, out_);
    if ((group.place() & (bit - 1)) == 0) dropped.keep_error(held.index, error_);
    if (!error_.empty()) channel.read(out_, channel.rank(), partner, region, most, held);
    channel.finish_receive(partner);
    channel.read(in_, partner, channel.rank(), region, most, theirs_);
    channel.flush();

    const bool lower = (group.place() & bit) == 0;
    core::add(lower ? held : theirs_, lower ? theirs_ : held, merged_);
    std::swap(held, merged_);
    channel.report_unless_finite(held.value);
    dropped.cut(held, most, /*keeper=*/(group.place() & (2 * bit - 1)) == 0);
  }
}

}  // namespace topknot::collective
