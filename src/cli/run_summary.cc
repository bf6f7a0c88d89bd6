// SPDX-License-Identifier: Apache-2.0
//
// The end of a run: its result for programs, its summary for people.
#include <fmt/core.h>

#include <algorithm>

#include "cli/colour.h"
#include "cli/machine.h"
#include "cli/run_log.h"

namespace topknot::cli {
Json RunLog::result(const train::Outcome& outcome) const {
  const double sent = outcome.sent_bytes_per_step * at_least_one(own_.applied);
  const double exposed =
      outcome.exposed_seconds_per_step * static_cast<double>(own_.steps);
  Json exchange = exchange_json(start_.job);
  StepTotals all = earlier_;
  all.count += own_.count;
  all.exchanges += own_.exchanges;
  exchange["density_achieved"] = all.density(start_.parameters);
  return {{"job", job_.name},
          {"model", job_.model},
          {"data", job_.data},
          {"seed", job_.seed},
          {"scheme", scheme_text(job_, start_.job)},
          {"exchange", exchange},
          {"workers", options_.workers},
          {"steps", outcome.steps},
          {"epochs", outcome.epochs},
          {"seconds", earlier_.seconds + outcome.seconds},
          {"metric", to_json(outcome.metric)},
          {"sent_bytes_per_step",
           (earlier_.sent_bytes + sent) / at_least_one(earlier_.applied + own_.applied)},
          {"dense_bytes_per_step", outcome.dense_bytes_per_step},
          {"exposed_seconds_per_step",
           (earlier_.exposed + exposed) / at_least_one(earlier_.steps + own_.steps)},
          {"skipped_steps", earlier_.steps - earlier_.applied + outcome.skipped_steps},
          {"weights_hash", outcome.weights_hash},
          {"versions", describe_versions(options_.torch)}};
}

std::string RunLog::summary(const train::Outcome& outcome) const {
  std::string text;
  const auto add = [&](const std::string& what, const std::string& said) {
    text += "  " + coloured(Colour::bold, fmt::format("{:<11}", what), stdout) + " " +
            said + "\n";
  };
  const Json all = result(outcome);
  add("run", fmt::format("{}: {} on {}, seed {}, {} workers ({})", job_.name, job_.model,
                         job_.data, job_.seed, options_.workers, options_.launch));
  add("scheme", fmt::format("{}; {:.4g} of the coordinates agreed on",
                            scheme_and_exchange(job_, start_.job),
                            all["exchange"]["density_achieved"].get<double>()));
  if (!outcome.metric.name.empty())
    add(outcome.metric.name,
        fmt::format("{:.4f} on {} test samples", outcome.metric.value,
                    with_commas(start_.test_samples)));
  add("time", fmt::format("{} for {} of {} steps, {}; {:.0f} samples/s, {:.1f} ms a step",
                          duration_text(outcome.seconds), own_.steps, start_.steps,
                          counted(outcome.epochs, "epoch"),
                          share(static_cast<double>(own_.samples), own_.seconds),
                          1e3 * own_.seconds / at_least_one(own_.steps)));
  const double sent = all["sent_bytes_per_step"].get<double>();
  const double dense = outcome.dense_bytes_per_step;
  add("sent", fmt::format("{} a step by the busiest worker; dense {}{}", bytes_text(sent),
                          bytes_text(dense),
                          sent > 0 && dense > 0
                              ? fmt::format(", {:.1f} times as much", dense / sent)
                              : ""));
  add("exchange",
      fmt::format("{:.0f} % hidden behind the backward pass; the rest, {:.2f} ms "
                  "a step, was waited for",
                  100 * outcome.overlap, 1e3 * outcome.exposed_seconds_per_step));
  if (const std::string said = describe_imbalance(traffic_); !said.empty())
    add("balance", said);
  if (const std::string said = describe_waits(traffic_); !said.empty())
    add("waits", said);
  const std::string copied =
      outcome.checkpoint_bytes == 0
          ? ""
          : fmt::format(", {} while a checkpoint is written",
                        bytes_text(static_cast<double>(outcome.checkpoint_bytes)));
  add("memory", fmt::format("gradients {} a worker, {} beyond them{}; peak of {} {}",
                            bytes_text(static_cast<double>(start_.gradient_bytes)),
                            bytes_text(static_cast<double>(start_.engine_bytes)), copied,
                            options_.launch == "mpi" ? "rank 0" : "all workers together",
                            bytes_text(static_cast<double>(peak_memory_bytes()))));
  if (const auto skipped = all["skipped_steps"].get<std::uint64_t>(); skipped > 0)
    add("skipped",
        counted(skipped, "step") + " whose gradient was not finite; no savings");
  if (saved_ > 0)
    add("saved", counted(saved_, "checkpoint") + ", written in " +
                     duration_text(save_seconds_) + " beside the steps");
  add("versions", fmt::format("topknot {} ({}), torch {}", TOPKNOT_VERSION, built_from(),
                              options_.torch));
  add("weights", outcome.weights_hash);
  if (options_.folder != nullptr) add("left in", options_.folder->path().string());
  return text;
}

}  // namespace topknot::cli
