// SPDX-License-Identifier: Apache-2.0
//
// Ranks as threads: run(4, [](Transport& link) { ... }) runs the function once a rank.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "topknot/transports.h"

namespace topknot::testing {

/// Returns when all ranks have; throws what was thrown first.
inline void run(int ranks, const std::function<void(Transport&)>& rank_main,
                const LinkOptions& options = {}) {
  auto links = make_inproc(ranks, options);
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < links.size(); ++r)
    threads.emplace_back([&, r] {
      try {
        rank_main(*links[r]);
      } catch (...) {
        const std::scoped_lock lock(mutex);
        if (!first) first = std::current_exception();
      }
      links[r].reset();
    });
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

/// Like run(), but returns what each rank threw, by rank.
inline std::vector<std::exception_ptr> run_to_the_end(
    int ranks, const std::function<void(Transport&)>& rank_main,
    const LinkOptions& options = {}) {
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(ranks));
  run(
      ranks,
      [&](Transport& link) {
        try {
          rank_main(link);
        } catch (...) {
          errors[static_cast<std::size_t>(link.rank())] = std::current_exception();
        }
      },
      options);
  return errors;
}

}  // namespace topknot::testing
