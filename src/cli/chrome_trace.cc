// SPDX-License-Identifier: Apache-2.0
#include "cli/chrome_trace.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>

#include "topknot/error.h"
#include "transports/control_channel.h"

namespace topknot::cli {
namespace {

constexpr int kTrips = 16;

void send(Transport& link, int to, double time) {
  link.wait(link.send(to, std::as_bytes(std::span(&time, 1))));
}

double receive(Transport& link, int from) {
  std::vector<std::byte> bytes;
  link.wait(link.recv(from, bytes, sizeof(double)));
  return ControlChannel(link).value_in<double>(bytes, from);
}

/// Answers each request of a rank with the time.
void tell_time(Transport& link, int rank) {
  for (int trip = 0; trip < kTrips; ++trip) {
    receive(link, rank);
    send(link, rank, link.now());
  }
}

ClockReading ask_time(Transport& link) {
  double quickest = std::numeric_limits<double>::max();
  ClockReading best;
  for (int trip = 0; trip < kTrips; ++trip) {
    const double asked = link.now();
    send(link, 0, asked);
    const double theirs = receive(link, 0);
    const double told = link.now();
    if (told - asked >= quickest) continue;
    quickest = told - asked;
    best = {told, (asked + told) / 2 - theirs};
  }
  if (std::abs(best.ahead) <= quickest / 2) best.ahead = 0;
  return best;
}

void print_names(std::FILE* file, std::size_t rank) {
  fmt::print(
      file,
      R"({{"ph":"M","name":"process_name","pid":{0},"args":{{"name":"rank {0}"}}}},)"
      "\n"
      R"({{"ph":"M","name":"thread_name","pid":{0},"tid":0,"args":{{"name":"compute"}}}},)"
      "\n"
      R"({{"ph":"M","name":"thread_name","pid":{0},"tid":1,"args":{{"name":"exchange"}}}})",
      rank);
}

std::string name_of(const TraceSpan& span) {
  constexpr const char* kNames[] = {
      "data",       "forward", "backward", "exposed exchange", "optimizer", "agree",
      "evaluation", "bucket",  "select",   "encode",           "wait",      "decode"};
  const std::string name = kNames[span.kind];
  if (span.kind == TraceSpan::exchange) return fmt::format("{} {}", name, span.bucket);
  if (span.kind == TraceSpan::wait)
    return fmt::format("{} for rank {}", name, span.bucket);
  return name;
}

void print_span(std::FILE* file, std::size_t rank, const TraceSpan& span, double zero) {
  const std::string sent = span.kind == TraceSpan::exchange
                               ? fmt::format(R"(,"sent_bytes":{})", span.sent_bytes)
                               : "";
  fmt::print(file,
             ",\n"
             R"({{"ph":"X","name":"{}","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},)"
             R"("args":{{"step":{}{}}}}})",
             name_of(span), rank, span.kind >= TraceSpan::exchange ? 1 : 0,
             1e6 * (span.start - zero), 1e6 * span.seconds, span.step, sent);
}

TraceSpan::Kind kind_of(Phase phase) {
  switch (phase) {
    case Phase::select:
      return TraceSpan::select;
    case Phase::encode:
      return TraceSpan::encode;
    case Phase::wait:
      return TraceSpan::wait;
    case Phase::decode:
      return TraceSpan::decode;
  }
  return TraceSpan::wait;
}

double ahead_at(double time, ClockReading first, ClockReading last) {
  if (last.at <= first.at) return first.ahead;
  const double share = (time - first.at) / (last.at - first.at);
  return first.ahead + share * (last.ahead - first.ahead);
}

}  // namespace

ClockReading read_clock(Transport& link) {
  if (link.rank() != 0) return ask_time(link);
  for (int rank = 1; rank < link.size(); ++rank) tell_time(link, rank);
  return {link.now(), 0};
}

void TraceSpans::keep(const TraceSpan& span) {
  if (spans_.size() < limit_) spans_.push_back(span);
}

// The trainer's own phases follow one another: where a step has several passes, each phase is shown
// as the sum of them.
void TraceSpans::add(const train::StepRecord& record) {
  const StepReport& report = record.report;
  const double backward_ends = report.start + record.compute_seconds;
  const double step_ends = report.start + report.seconds;
  double at = backward_ends - record.backward_seconds;
  const auto own = [&](TraceSpan::Kind kind, double start, double seconds) {
    if (seconds > 0) keep({kind, 0, record.step, start, seconds, 0});
  };
  own(TraceSpan::backward, at, record.backward_seconds);
  at -= record.forward_seconds;
  own(TraceSpan::forward, at, record.forward_seconds);
  own(TraceSpan::data, at - record.data_seconds, record.data_seconds);
  // The wait for the last bucket is in finish(), at the end of the step.
  own(TraceSpan::exposed, step_ends - report.exposed_seconds, report.exposed_seconds);
  own(TraceSpan::optimizer, step_ends, record.optimizer_seconds);
  own(TraceSpan::agree, step_ends + record.optimizer_seconds, record.agree_seconds);
  for (std::uint32_t i = 0; i < report.buckets.size(); ++i) {
    const StepTrace& bucket = report.buckets[i];
    if (bucket.seconds <= 0) continue;
    keep({TraceSpan::exchange, i, record.step, bucket.start, bucket.seconds,
          bucket.sent_bytes});
    for (const PhaseSpan& span : bucket.spans)
      keep({kind_of(span.phase),
            span.phase == Phase::wait ? static_cast<std::uint32_t>(span.peer) : i,
            record.step, span.start, span.seconds, 0});
  }
}

void TraceSpans::add(const train::EpochRecord& record) {
  if (record.evaluation_seconds > 0)
    keep({TraceSpan::evaluation, 0, record.step, record.evaluation_start,
          record.evaluation_seconds, 0});
}

std::vector<std::vector<TraceSpan>> TraceSpans::gather(Transport& link,
                                                       ClockReading first,
                                                       ClockReading last) const {
  std::vector<TraceSpan> mine = spans_;
  for (TraceSpan& span : mine) span.start -= ahead_at(span.start, first, last);
  return ControlChannel(link).gather_at_0(mine, limit_);
}

void write_chrome_trace(const std::filesystem::path& path,
                        const std::vector<std::vector<TraceSpan>>& ranks) {
  double zero = std::numeric_limits<double>::max();
  for (const auto& spans : ranks)
    for (const TraceSpan& span : spans) zero = std::min(zero, span.start);
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "wb"),
                                                       &std::fclose);
  if (file) {
    fmt::print(file.get(), "{{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      if (rank != 0) fmt::print(file.get(), ",\n");
      print_names(file.get(), rank);
      for (const TraceSpan& span : ranks[rank]) print_span(file.get(), rank, span, zero);
    }
    fmt::print(file.get(), "\n]}}\n");
  }
  if (!file || std::fflush(file.get()) != 0 || std::ferror(file.get()) != 0)
    throw StorageError(fmt::format("The file {} cannot be written: {}.", path.string(),
                                   std::strerror(errno)));
}

}  // namespace topknot::cli
