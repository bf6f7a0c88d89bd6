// SPDX-License-Identifier: Apache-2.0
//
// The work of bench allreduce: whole steps of each collective between ranks, checked for the
// law and for agreement before they are timed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/bench.h"
#include "cli/gradients.h"
#include "cli/launch.h"
#include "topknot/transport.h"

namespace topknot::cli {

struct AllreduceOptions {
  Problem problem;
  Gradients gradients;
  Launch launch;
  std::string link;                  // as given, for the eye
  std::vector<std::uint64_t> sizes;  // empty: problem.n alone
  bool nccl_columns = false;
  bool in_place = false;
  std::vector<std::string> collectives = {"all"};
  std::string compressor;  // empty: the collective's own
  int steps = 20;
  int warm_up = 5;
  double correlation = 0.5;
};

/// What was found of one collective.
struct AllreduceRow {
  std::string collective;
  std::string parameters;
  double lost = 0;
  bool agree = true;
  std::uint64_t wrong = 0;  // coordinates
  std::uint64_t n = 0;
  double seconds = 0;      // the median step's
  double seconds_p99 = 0;  // of the steps, 99 % take no longer
  double select_seconds = 0;
  double wait_seconds = 0;
  double sent_bytes_max = 0;
  double sent_bytes_mean = 0;
  double received_bytes_max = 0;
  double messages_max = 0;
  double sum_nnz = 0;
  double vs_dense = 0;

  bool correct() const { return wrong == 0 && lost == 0 && agree; }
};

/// Throws ConfigError, before any work, when a name or a number cannot be.
void check(const AllreduceOptions& options, const std::vector<std::string>& names);

/// One rank's part in the whole benchmark, at the length of `options.problem`. The first row is the
/// baseline that the others are compared with: the faster of our dense ring and the transport's own
/// sum.
std::vector<AllreduceRow> run_rank(Transport& link, const AllreduceOptions& options,
                                   const std::vector<std::string>& names);

}  // namespace topknot::cli
