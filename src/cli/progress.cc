// SPDX-License-Identifier: Apache-2.0
#include "cli/progress.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "cli/numbers.h"

namespace topknot::cli {
namespace {

std::size_t terminal_columns() {
  winsize window = {};
  ioctl(STDERR_FILENO, TIOCGWINSZ, &window);
  return window.ws_col > 1 ? window.ws_col - 1U : 79U;
}

}  // namespace

std::string fitting_line(std::string head, const std::vector<std::string>& notes,
                         std::size_t columns) {
  for (const std::string& note : notes) {
    if (note.empty()) continue;
    if (head.size() + 2 + note.size() > columns) break;
    head += "  " + note;
  }
  if (head.size() > columns) head.resize(columns);
  return head;
}

Progress::Progress(std::string_view title, std::size_t steps, std::size_t first)
    : title_(title),
      steps_(steps),
      first_(first),
      done_(first),
      terminal_(isatty(STDERR_FILENO) != 0),
      start_(std::chrono::steady_clock::now()) {}

Progress::~Progress() { clear(); }

void Progress::clear() {
  if (shown_) fmt::print(stderr, "\r\033[K");
  shown_ = false;
}

void Progress::step() {
  ++done_;
  const auto elapsed = std::chrono::steady_clock::now() - start_;
  if (terminal_ && elapsed >= std::chrono::seconds(2)) draw({});
}

void Progress::show(std::size_t done, const std::vector<std::string>& notes) {
  done_ = done;
  const auto now = std::chrono::steady_clock::now();
  if (!terminal_ || (done < steps_ && now - drawn_ < std::chrono::milliseconds(200)))
    return;
  drawn_ = now;
  draw(notes);
}

void Progress::show_activity(std::string_view text) {
  if (terminal_) write(fitting_line(title_, {std::string(text)}, terminal_columns()));
}

std::string Progress::time_left() const {
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start_;
  if (done_ <= first_ || done_ >= steps_ || spent.count() < 1) return "";
  const auto taken = static_cast<double>(done_ - first_);
  const auto left = static_cast<double>(steps_ - done_);
  return duration_text(std::max(spent.count() / taken * left, 1.0)) + " left";
}

void Progress::draw(const std::vector<std::string>& notes) {
  constexpr std::size_t kTitle = 30;
  constexpr std::size_t kBar = 15;
  const std::size_t filled =
      kBar * std::min(done_, steps_) / std::max<std::size_t>(steps_, 1);
  const std::string title =
      notes.empty() ? fmt::format("{:<{}}", title_, kTitle) : title_;
  std::vector<std::string> all = {time_left()};
  all.insert(all.end(), notes.begin(), notes.end());
  write(fitting_line(fmt::format("{} [{:<{}}] {}/{}", title, std::string(filled, '#'),
                                 kBar, done_, steps_),
                     all, terminal_columns()));
}

void Progress::write(std::string_view line) {
  shown_ = true;
  fmt::print(stderr, "\r{}\033[K", line);
  std::fflush(stderr);
}

}  // namespace topknot::cli
