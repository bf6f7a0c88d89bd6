// SPDX-License-Identifier: Apache-2.0
#include "cli/run_log.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <thread>

#include "cli/chrome_trace.h"
#include "cli/folders.h"
#include "topknot/transports.h"
#include "transports/forwarding_transport.h"

namespace topknot::cli {
namespace {

using test::read_text;
using test::ScratchFolder;

train::Job small_job() {
  train::Job job;
  job.name = "small";
  job.epochs = 2;
  return job;
}

std::vector<Json> lines_of(const std::filesystem::path& file) {
  std::vector<Json> lines;
  std::istringstream stream(read_text(file));
  for (std::string line; std::getline(stream, line);) lines.push_back(Json::parse(line));
  return lines;
}

/// A run of one rank, on the trainer that trains nothing, into a folder.
struct SmallRun {
  explicit SmallRun(const std::filesystem::path& path, bool tensorboard = false)
      : folder(path, FolderUse::fresh) {
    auto links = make_inproc(1);
    RunLog log(small_job(), {.folder = &folder, .tensorboard = tensorboard, .to = said});
    outcome = train::train(*links[0], small_job(), {}, log);
    log.finish(outcome);
    summary = log.summary(outcome);
    std::fclose(said);
  }
  RunFolder folder;
  char* text = nullptr;
  std::size_t length = 0;
  std::FILE* said = open_memstream(&text, &length);
  train::Outcome outcome;
  std::string summary;
  ~SmallRun() { std::free(text); }
};

TEST(RunLog, LeavesALineForEachStepAndEachEpoch) {
  const ScratchFolder folder;
  const SmallRun run(folder.path());
  const auto steps = lines_of(folder.path() / "steps.jsonl");
  ASSERT_EQ(steps.size(), 20u);
  for (std::size_t i = 0; i < steps.size(); ++i) EXPECT_EQ(steps[i]["step"], i);
  EXPECT_EQ(steps[12]["epoch"], 1);
  EXPECT_EQ(steps[12]["sent_bytes"], 112);
  EXPECT_EQ(steps[1]["loss"], 1.0);
  EXPECT_EQ(steps[3]["finite"], false);
  EXPECT_EQ(steps[4]["finite"], true);
  const auto epochs = lines_of(folder.path() / "epochs.jsonl");
  ASSERT_EQ(epochs.size(), 2u);
  EXPECT_EQ(epochs[1]["step"], 20);
  EXPECT_EQ(epochs[1]["metric"]["name"], "accuracy");
}

TEST(RunLog, LeavesTheConfigurationAndTheResult) {
  const ScratchFolder folder;
  const SmallRun run(folder.path());
  const Json said = Json::parse(read_text(folder.path() / "run.json"));
  ASSERT_EQ(said["job"].size(), train::keys().size());
  EXPECT_EQ(said["job"]["epochs"], 2);
  EXPECT_EQ(said["job"]["flip"], false);
  EXPECT_EQ(said["job"]["density"], 0) << "as the budget has it";
  EXPECT_EQ(said["job"]["name"], "small");
  EXPECT_TRUE(said["job"]["rules"].is_array());
  EXPECT_EQ(said["buckets"][0]["coordinates"], 600);
  EXPECT_GE(said["machine"]["cores"], 1);
  EXPECT_EQ(said["versions"]["topknot"], TOPKNOT_VERSION);
  const Json result = Json::parse(read_text(folder.path() / "result.json"));
  EXPECT_EQ(result["weights_hash"], run.outcome.weights_hash);
}

TEST(RunLog, SummarisesTheRunForAPerson) {
  const ScratchFolder folder;
  const SmallRun run(folder.path());
  for (const char* part :
       {"accuracy    0.9500 on 100 test samples", "20 of 20 steps", "60 % hidden",
        "gradients 4.0 kB", "4.0 kB beyond", "1 step whose gradient was not finite"})
    EXPECT_NE(run.summary.find(part), std::string::npos) << part << "\n" << run.summary;
  const std::string shown(run.text, run.length);
  EXPECT_NE(shown.find("epoch 2/2 done  train loss 0.1000"), std::string::npos) << shown;
}

TEST(RunLog, LeavesEventsWhenAskedTo) {
  const ScratchFolder folder;
  const SmallRun run(folder.path(), true);
  std::string events;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    if (entry.path().filename().string().starts_with("events."))
      events = read_text(entry);
  for (const char* tag : {"train/loss", "epoch/accuracy", "exchange/sent_bytes"})
    EXPECT_NE(events.find(tag), std::string::npos) << tag;
}

TEST(Texts, AreShort) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(999), "999 B");
  EXPECT_EQ(bytes_text(41234), "41.2 kB");
  EXPECT_EQ(bytes_text(999'600), "1.0 MB");
  EXPECT_EQ(bytes_text(123e6), "123 MB");
  EXPECT_EQ(duration_text(1.5), "1.50 s");
  EXPECT_EQ(duration_text(59.7), "1 min 0 s");
  EXPECT_EQ(duration_text(102), "1 min 42 s");
  EXPECT_EQ(duration_text(3720), "1 h 2 min");
}

/// A link whose clock is its own.
class OtherClock final : public ForwardingTransport {
 public:
  OtherClock(std::unique_ptr<Transport> link, double ahead)
      : ForwardingTransport(std::move(link)), ahead_(ahead) {}
  double now() const noexcept override { return link().now() + ahead_; }

 private:
  std::unique_ptr<Transport> wrap(std::unique_ptr<Transport> channel) override {
    return std::make_unique<OtherClock>(std::move(channel), ahead_);
  }

  double ahead_;
};

TEST(Trace, PutsTheClocksOfAllRanksRight) {
  auto links = make_inproc(3);
  std::vector<std::vector<TraceSpan>> all;
  std::vector<std::thread> threads;
  const double truth = links[0]->now() + 5;
  for (int rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] {
      const double ahead = 1000.0 * rank;
      OtherClock link(std::move(links[static_cast<std::size_t>(rank)]), ahead);
      const ClockReading before = read_clock(link);
      TraceSpans spans(4);
      train::StepRecord record;
      record.report.start = truth + ahead;
      record.compute_seconds = record.forward_seconds = 0.25;
      record.report.buckets.resize(2);
      record.report.buckets[1].start = truth + ahead + 1;
      record.report.buckets[1].seconds = 0.5;
      spans.add(record);
      spans.add(record);  // beyond the limit
      auto gathered = spans.gather(link, before, read_clock(link));
      if (rank == 0) all = std::move(gathered);
    });
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(all.size(), 3u);
  for (const auto& spans : all) {
    ASSERT_EQ(spans.size(), 4u);
    EXPECT_NEAR(spans[0].start, truth, 0.5);
    EXPECT_NEAR(spans[1].start, truth + 1, 0.5);
  }
}

TEST(Trace, HasEachPhaseOfAStepAtItsPlace) {
  train::StepRecord record;
  record.report.start = 10;
  record.report.seconds = 1;
  record.data_seconds = 0.125;
  record.forward_seconds = 0.25;
  record.backward_seconds = 0.25;
  record.compute_seconds = 0.625;
  record.report.exposed_seconds = 0.25;
  record.optimizer_seconds = 0.5;
  record.agree_seconds = 0.125;
  StepTrace bucket;
  bucket.start = 10.5;
  bucket.seconds = 0.5;
  bucket.spans = {{Phase::select, -1, 10.5, 0.125}, {Phase::wait, 3, 10.75, 0.25}};
  record.report.buckets = {bucket};
  TraceSpans spans;
  spans.add(record);
  train::EpochRecord epoch;
  epoch.evaluation_start = 20;
  epoch.evaluation_seconds = 2;
  spans.add(epoch);
  auto links = make_inproc(1);
  const auto all = spans.gather(*links[0], {}, {});
  std::map<TraceSpan::Kind, std::pair<double, double>> found;
  for (const TraceSpan& span : all[0]) found[span.kind] = {span.start, span.seconds};
  const std::map<TraceSpan::Kind, std::pair<double, double>> expected{
      {TraceSpan::data, {10, 0.125}},        {TraceSpan::forward, {10.125, 0.25}},
      {TraceSpan::backward, {10.375, 0.25}}, {TraceSpan::exposed, {10.75, 0.25}},
      {TraceSpan::optimizer, {11, 0.5}},     {TraceSpan::agree, {11.5, 0.125}},
      {TraceSpan::evaluation, {20, 2}},      {TraceSpan::exchange, {10.5, 0.5}},
      {TraceSpan::select, {10.5, 0.125}},    {TraceSpan::wait, {10.75, 0.25}}};
  EXPECT_EQ(found, expected);
}

TEST(Trace, OfOneClockIsNotMoved) {
  auto links = make_inproc(2);
  ClockReading other;
  std::thread thread([&] { other = read_clock(*links[1]); });
  read_clock(*links[0]);
  thread.join();
  EXPECT_EQ(other.ahead, 0);
}

TEST(Trace, IsJsonWithAProcessForEachRank) {
  const ScratchFolder folder;
  const TraceSpan bucket{TraceSpan::exchange, 1, 7, 10.5, 0.25, 99};
  write_chrome_trace(folder.path() / "trace.json",
                     {{{TraceSpan::forward, 0, 7, 10, 1, 0}}, {bucket}});
  const Json said = Json::parse(read_text(folder.path() / "trace.json"));
  std::set<int> processes;
  for (const Json& event : said["traceEvents"]) processes.insert(event["pid"].get<int>());
  EXPECT_EQ(processes, (std::set<int>{0, 1}));
  const Json& last = said["traceEvents"].back();
  EXPECT_EQ(last["name"], "bucket 1");
  EXPECT_EQ(last["ts"], 500000.0);
  EXPECT_EQ(last["dur"], 250000.0);
  EXPECT_EQ(last["args"]["sent_bytes"], 99);
}

}  // namespace
}  // namespace topknot::cli
