// SPDX-License-Identifier: Apache-2.0
//
// watched: forwards everything to another channel, and lets another thread see whom it waits for.
#pragma once

#include <atomic>
#include <memory>

#include "topknot/transport.h"

namespace topknot {

/// Whom a rank is waiting for, over any of its channels. Read by any thread. Where several threads
/// of the rank wait at once, it is about the one that began last.
class Waiting {
 public:
  struct Now {
    int rank = -1;  ///< -1: for nobody
    double seconds = 0;
  };
  Now now() const;

 private:
  friend class Watched;
  std::atomic<int> rank_ = -1;
  std::atomic<double> since_ = 0;
};

/// `link` must outlive what is returned.
std::unique_ptr<Transport> make_watched(Transport& link,
                                        std::shared_ptr<Waiting> waiting);

}  // namespace topknot
