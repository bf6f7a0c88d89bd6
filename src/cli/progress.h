// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace topknot::cli {

/// A bar on the terminal's error output; nothing where that is not a terminal. It is as wide as
/// the terminal at most.
class Progress {
 public:
  /// `first` of the steps were done before this run.
  Progress(std::string_view title, std::size_t steps, std::size_t first = 0);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// One more is done. The bar appears when the work takes over two seconds.
  void step();
  /// So many are done. Behind the bar stand the time that is left and `notes`, what matters most
  /// first: those that do not fit are left out. Drawn a few times a second at most, but always
  /// when all is done.
  void show(std::size_t done, const std::vector<std::string>& notes);
  /// A line in the bar's place, for what is no step.
  void show_activity(std::string_view text);
  /// Takes the bar away, until it is drawn again.
  void clear();
  bool terminal() const { return terminal_; }
  /// Until all is done, at the pace so far: "4 min 10 s left"; empty where there is none.
  std::string time_left() const;

 private:
  void draw(const std::vector<std::string>& notes);
  void write(std::string_view line);

  const std::string title_;
  const std::size_t steps_;
  const std::size_t first_;
  std::size_t done_;
  bool shown_ = false;
  const bool terminal_;
  const std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point drawn_;
};

/// `head`, and behind it as many of `notes` as fit into `columns`, in their order.
std::string fitting_line(std::string head, const std::vector<std::string>& notes,
                         std::size_t columns);

}  // namespace topknot::cli
